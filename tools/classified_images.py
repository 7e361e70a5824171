#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a folder of images into one file for `tare eval MODEL --tasks classify=FILE`.

usage: classified_images.py MODEL FOLDER FILE.safetensors [--every N]

MODEL has timm's config.json, which says how its images are prepared. FOLDER has a folder for each class (FOLDER/CLASS/
*.png, *.jpg, *.jpeg, at any depth); classes and images are numbered in timm's order, the natural order of their names.
FILE gets `images` [N,3,S,S] in 8 bits and `labels` [N]. Tare normalizes the pixels.

As timm's evaluation does it: RGB; the shorter side becomes floor(S / crop_pct), by Pillow's bicubic filter, whose
passes round to 8 bits; then the middle S x S. The horizontal pass comes first, as in Pillow up to 12: Pillow 13 turns
it round for tall images.
"""
import argparse
import json
import math
import os
import pathlib
import re
import struct
import sys

try:
    from PIL import Image
except ImportError:
    sys.exit("classified_images: needs Pillow; try: apt install python3-pil")

ENDINGS = {".png", ".jpg", ".jpeg"}
MOST_PIXELS = 1 << 28  # of a resized image: a strip of one pixel's width is refused, not enlarged


def natural(name):
    """A key by which x2 is before x10, as timm sorts."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name.lower())]


def find(folder):
    """The images' paths in order, and their labels."""
    if not os.path.isdir(folder):
        sys.exit(f"{folder}: got no folder, expected one with a folder for each class")
    found = []
    for root, _, files in os.walk(folder, followlinks=True):
        found += [(os.path.join(root, name), os.path.basename(root), root) for name in files
                  if os.path.splitext(name)[1].lower() in ENDINGS]
    if any(os.path.samefile(root, folder) for _, _, root in found):
        sys.exit(f"{folder}: got images without a class, expected a folder for each class")
    if not found:
        sys.exit(f"{folder}: got no images, expected CLASS/*.png, *.jpg or *.jpeg")
    classes = {name: i for i, name in enumerate(sorted({name for _, name, _ in found}, key=natural))}
    return [(path, classes[name]) for path, name, _ in sorted(found, key=lambda one: natural(one[0]))]


def resized(image, shorter):
    width, height = image.size
    if min(width, height) == shorter:
        return image
    longer = int(shorter * max(width, height) / min(width, height))
    if longer * shorter > MOST_PIXELS:
        raise ValueError(f"got {width} x {height} pixels, expected sides of similar lengths")
    new = (shorter, longer) if width <= height else (longer, shorter)
    return image.resize((new[0], height), Image.Resampling.BICUBIC).resize(new, Image.Resampling.BICUBIC)


def prepared(image, side, crop_pct):
    """RGB pixels [side, side] of an image, as timm's evaluation transform makes them."""
    if image.mode[0] in "IF":
        raise ValueError(f"got mode {image.mode}, expected 8 bits a color; try converting it")
    if getattr(image, "n_frames", 1) > 1:
        raise ValueError(f"got {image.n_frames} frames, expected one; try converting it")
    image = resized(image.convert("RGB"), math.floor(side / crop_pct))
    left, top = int(round((image.width - side) / 2)), int(round((image.height - side) / 2))
    return image.crop((left, top, left + side, top + side))


def settings(model):
    """The side of the images, the share of it that is kept, and the number of classes."""
    where = pathlib.Path(model) / "config.json"
    try:
        top = json.loads(where.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{where}: {error}; expected timm's config.json")
    config = top.get("pretrained_cfg") or top
    arguments = top.get("model_args") or {}
    side = arguments.get("img_size") or config.get("input_size", [3, 256, 256])[-1]
    crop_pct, classes = config.get("crop_pct", 0.95), top.get("num_classes")
    for key, known in {"interpolation": "bicubic", "crop_mode": "center"}.items():
        if config.get(key, known) != known:
            sys.exit(f"{where}: {key}: got {config[key]!r}, expected {known!r}")
    if not isinstance(side, int) or not 0 < side <= 1 << 14 or not 0 < crop_pct <= 1:
        sys.exit(f"{where}: got side {side} and crop_pct {crop_pct}, expected 1 to {1 << 14} and up to 1")
    return side, crop_pct, arguments.get("num_classes", classes)


def write(found, side, crop_pct, out):
    """One image in memory at a time; FILE appears when it is whole."""
    pixels, labels = 3 * side * side * len(found), 8 * len(found)
    header = json.dumps({
        "labels": {"dtype": "I64", "shape": [len(found)], "data_offsets": [0, labels]},
        "images": {"dtype": "U8", "shape": [len(found), 3, side, side], "data_offsets": [labels, labels + pixels]}})
    header += " " * (-len(header) % 8)
    part = out.with_name(out.name + ".part")
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(found)}q", *(label for _, label in found)))
        for path, _ in found:
            try:
                with Image.open(path) as image:
                    bands = prepared(image, side, crop_pct).split()
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                part.unlink()
                sys.exit(f"{path}: {error}")
            for band in bands:
                file.write(band.tobytes())
    part.replace(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth image")
    options = parser.parse_args()
    if options.file.suffix != ".safetensors" or options.every < 1:
        parser.error("expected FILE.safetensors and --every of 1 or more")
    side, crop_pct, expected = settings(options.model)
    found = find(options.folder)
    classes = 1 + max(label for _, label in found)
    if expected is not None and classes != expected:
        sys.exit(f"{options.folder}: got folders of {classes} classes, expected {expected}, as the model numbers them")
    found = found[::options.every]
    write(found, side, crop_pct, options.file)
    print(f"{options.file}: {len(found)} images of {classes} classes")


if __name__ == "__main__":
    main()
