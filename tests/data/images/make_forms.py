#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes forms/: images in every form that timm's folders may have, and forms.safetensors, what Pillow's convert("RGB")
makes of each, [H,W,3]; and refused/: what is refused, though whole. Needs Pillow (11.1, with libjpeg-turbo 2.1.5).

usage: make_forms.py
"""
import json
import pathlib
import random
import struct
import zlib

from PIL import Image

W, H = 23, 17
HERE = pathlib.Path(__file__).parent
FORMS, REFUSED = HERE / "forms", HERE / "refused"
draw = random.Random(7)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def rows(bits, channels, xs, ys, value):
    """Rows without filters of the pixels at xs, ys."""
    out = b""
    for y in ys:
        line = "".join(f"{v:0{bits}b}" for x in xs for v in value(x, y)[:channels])
        line += "0" * (-len(line) % 8)
        out += b"\0" + int(line, 2).to_bytes(len(line) // 8, "big")
    return out


def png(path, bits, color, value, before=b"", interlaced=False, size=(W, H)):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    data = b"".join(rows(bits, channels, range(x, W, dx), range(y, H, dy), value)
                    for x, y, dx, dy in (passes if interlaced else [(0, 0, 1, 1)]))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, bits, color, 0, 0, interlaced))
                     + before + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def noise(bits):
    return lambda x, y: [draw.randrange(1 << bits) for _ in range(4)]


def smooth(x, y):
    return [11 * x % 256, 15 * y % 256, (7 * x + 5 * y) % 256, 200]


for folder in (FORMS, REFUSED):
    folder.mkdir(exist_ok=True)
palette = chunk(b"PLTE", bytes(draw.randrange(256) for _ in range(48)))
for bits in (1, 2, 4):
    png(FORMS / f"grey{bits}.png", bits, 0, noise(bits))
png(FORMS / "palette.png", 4, 3, noise(4), palette + chunk(b"tRNS", b"\0\x80"))
png(FORMS / "rgb16.png", 16, 2, noise(16))
png(FORMS / "grey-alpha16.png", 16, 4, noise(16))
png(FORMS / "interlaced.png", 8, 2, smooth, interlaced=True)
png(FORMS / "interlaced-palette.png", 4, 3, noise(4), palette, interlaced=True)
png(FORMS / "transparent-color.png", 8, 2, smooth, chunk(b"gAMA", struct.pack(">I", 100000)) +
    chunk(b"tRNS", struct.pack(">3H", *smooth(3, 4)[:3])))
photo = Image.frombytes("RGB", (W, H), bytes(v for y in range(H) for x in range(W) for v in smooth(x, y)[:3]))
photo.save(FORMS / "baseline.jpg", quality=80)
photo.save(FORMS / "progressive.jpg", quality=70, progressive=True)
photo.save(FORMS / "full-color.jpg", quality=90, subsampling=0)
photo.convert("L").save(FORMS / "grey.jpg")

png(REFUSED / "grey16.png", 16, 0, noise(16))
png(REFUSED / "animated.png", 8, 2, smooth, chunk(b"acTL", struct.pack(">II", 2, 0)))
png(REFUSED / "large.png", 8, 2, smooth, size=(60000, 60000))
photo.convert("CMYK").save(REFUSED / "cmyk.jpg")
jpeg = (FORMS / "progressive.jpg").read_bytes()
last = jpeg.rindex(b"\xff\xda")
(REFUSED / "scans.jpg").write_bytes(jpeg[:last] + 120 * jpeg[last:-2] + jpeg[-2:])

header, data = {}, b""
for path in sorted(FORMS.iterdir()):
    pixels = Image.open(path).convert("RGB").tobytes()
    header[path.name] = {"dtype": "U8", "shape": [H, W, 3], "data_offsets": [len(data), len(data) + len(pixels)]}
    data += pixels
text = json.dumps(header)
text += " " * (-len(text) % 8)
(HERE / "forms.safetensors").write_bytes(struct.pack("<Q", len(text)) + text.encode() + data)
