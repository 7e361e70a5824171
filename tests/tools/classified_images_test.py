# SPDX-License-Identifier: Apache-2.0
"""tools/classified_images.py against timm's transform (tests/data/images: what timm 1.0.29 made of these images), bit
for bit, in timm's order; images that do not fit are named. Skipped (77) without Pillow."""
import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest

try:
    from PIL import Image
except ModuleNotFoundError:
    sys.exit(77)
root = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(root / "tools"))
import classified_images as made

DATA = root / "tests/data/images"


def arrays(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (info["shape"], data[8 + size:][slice(*info["data_offsets"])]) for name, info in header.items()}


class ClassifiedImages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        (self.path / "m").mkdir()
        self.configure(input_size=[3, 24, 24], crop_pct=0.95, interpolation="bicubic", crop_mode="center")

    def configure(self, **config):
        (self.path / "m/config.json").write_text(json.dumps({"pretrained_cfg": config}))

    def run_on(self, folder, *more):
        sys.argv = ["x", str(self.path / "m"), str(folder), str(self.path / "o.safetensors"), *more]
        with contextlib.redirect_stdout(io.StringIO()):
            made.main()
        return arrays(self.path / "o.safetensors")

    def test_classes_are_the_models(self):
        config = {"pretrained_cfg": {"input_size": [3, 24, 24]}, "num_classes": 4}
        (self.path / "m/config.json").write_text(json.dumps(config))
        self.refused(DATA / "folder", "got folders of 3 classes, expected 4")

    def refused(self, folder, message):
        with self.assertRaises(SystemExit) as refused:
            self.run_on(folder)
        self.assertIn(message, str(refused.exception))
        self.assertFalse((self.path / "o.safetensors.part").exists())

    def test_pixels_are_timms(self):
        expected = arrays(DATA / "expected.safetensors")
        for name in ("long", "odd", "same", "small", "tall", "wide"):
            (height, width, _), pixels = expected[f"{name}.input"]
            for side in (20, 24, 32):
                image = made.prepared(Image.frombytes("RGB", (width, height), pixels), side, 0.95)
                self.assertEqual(image.tobytes(), expected[f"{name}.{side}.cropped"][1], f"{name} {side}")

    def test_a_folder_is_in_timms_order(self):
        expected, got = arrays(DATA / "expected.safetensors"), self.run_on(DATA / "folder")
        self.assertEqual(got["labels"], expected["folder.labels"])
        self.assertEqual(got["images"][0], [6, 3, 24, 24])
        floats = struct.unpack(f"<{6 * 3 * 24 * 24}f", expected["folder.images"][1])
        self.assertEqual(list(got["images"][1]), [round((x * 0.5 + 0.5) * 255) for x in floats])
        self.assertEqual([pathlib.Path(path).relative_to(DATA / "folder").as_posix()
                          for path, _ in made.find(str(DATA / "folder"))],
                         json.loads((DATA / "folder.json").read_text())["order"])
        self.assertEqual(self.run_on(DATA / "folder", "--every", "4")["labels"][0], [2])

    def test_what_does_not_fit_is_named(self):
        bad = self.path / "bad/c"
        bad.mkdir(parents=True)
        self.refused(self.path / "bad", "got no images")
        (bad / "x.png").write_bytes(b"no image")
        self.refused(self.path / "bad", "x.png: cannot identify")
        Image.new("I;16", (30, 30)).save(bad / "x.png")
        self.refused(self.path / "bad", "expected 8 bits a color")
        Image.new("RGB", (1, 30000)).save(bad / "x.png")
        self.configure(input_size=[3, 256, 256])
        self.refused(self.path / "bad", "x.png: got 1 x 30000 pixels")
        Image.new("CMYK", (30, 40)).save(bad / "x.jpg")
        (bad / "x.png").unlink()
        self.assertEqual(self.run_on(self.path / "bad")["images"][0], [1, 3, 256, 256])
        (self.path / "bad/y.jpg").write_bytes(b"")
        self.refused(self.path / "bad", "got images without a class")
        self.configure(interpolation="bilinear")
        self.refused(DATA / "folder", "interpolation: got 'bilinear', expected 'bicubic'")


if __name__ == "__main__":
    unittest.main()
