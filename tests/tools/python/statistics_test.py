# SPDX-License-Identifier: Apache-2.0
"""tare.Statistics: the bytes that tare stats --tensors writes of the same arrays, whole or not at all."""
import sys

import numpy as np
import tare
from support import Case, program


def batch(seed):
    draw = np.random.default_rng(seed)
    return {"input_ids": draw.integers(0, 9, (2, 7)), "layer_out.0": draw.standard_normal((2, 7, 8), dtype=np.float32),
            "down_proj.in.1": draw.standard_normal((2, 7, 6), dtype=np.float32)}


class Tensor:
    """A PyTorch tensor as far as it is asked."""
    dtype = "torch.float32"

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


class StatisticsTest(Case):
    def feed(self, path, **options):
        with tare.Statistics(path, name="m", **options) as statistics:
            out, into = statistics.hook("layer_out", 0), statistics.pre_hook("down_proj.in", 1)
            for seed in 0, 1:
                arrays = batch(seed)
                statistics.feed("input_ids", None, arrays["input_ids"])
                into(None, (Tensor(arrays["down_proj.in.1"]),))
                out(None, (), (Tensor(arrays["layer_out.0"]), "others"))
                arrays["layer_out.0"][:] = 0  # what was fed is not looked at again

    def test_the_file_is_the_commands(self):
        files = [self.folder / f"batch{seed}.npz" for seed in (0, 1)]
        for seed, file in enumerate(files):
            np.savez(file, **batch(seed))
        program("stats", "--tensors", *files, "--name", "m", "--formats", "int8/row", "--out", self.folder / "C.h5")
        self.feed(self.folder / "S.h5", formats="int8/row")
        self.assertEqual((self.folder / "S.h5").read_bytes(), (self.folder / "C.h5").read_bytes())
        self.assertEqual(tare.open(self.folder / "S.h5").tokens, 28)
        self.feed(self.folder / "R.h5", skip_first=3)
        self.assertEqual(tare.open(self.folder / "R.h5").rest["layer_out"]["count"].tolist(), [4 * 4 * 8])
        self.refuses("skip_first: got 64, expected 0 to 63", self.feed, self.folder / "X.h5", skip_first=64)

    def test_arrays_of_any_type_and_strides(self):
        x = batch(0)["layer_out.0"].astype(np.float16)
        for name, array in ("A.h5", x), ("B.h5", x.astype(np.float64)), ("C.h5", np.asfortranarray(x)):
            with tare.Statistics(self.folder / name, name="m") as statistics:
                statistics.feed("layer_out", 0, array)
        self.assertEqual(len({(self.folder / name).read_bytes() for name in ("A.h5", "B.h5", "C.h5")}), 1)

    def test_nothing_is_kept_of_arrays(self):
        x = np.ones((1, 2, 3), np.float32)
        before = sys.getrefcount(x)
        with tare.Statistics(self.folder / "S.h5") as statistics:
            for _ in range(3):
                statistics.feed("layer_out", 0, x)
            self.assertEqual(sys.getrefcount(x), before)
            self.refuses("layer_out.0: got complex64", statistics.feed, "layer_out", 0, x.astype(np.complex64))
        self.assertEqual(sys.getrefcount(x), before)
        self.assertEqual(tare.open(self.folder / "S.h5").tokens, 6)

    def test_whole_or_not_at_all(self):
        with self.assertRaises(KeyError), tare.Statistics(self.folder / "S.h5") as statistics:
            statistics.feed("layer_out", 0, np.ones((1, 2, 3), np.float32))
            raise KeyError
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_measures_of_one_array(self):
        x = np.random.default_rng(4).standard_normal((2, 50, 64), dtype=np.float32)
        x[:, :, 9] *= 40
        found = tare.measures(x)
        values = x.astype(float)
        kurtosis = ((values - values.mean()) ** 4).mean() / values.var() ** 2
        self.assertAlmostEqual(found["kurtosis"][0], kurtosis, places=6)
        self.assertEqual(found["absmax"][0], np.abs(x).max())
        self.assertAlmostEqual(found["median"][0], np.median(np.abs(x)), delta=0.004 * np.median(np.abs(x)) + 1e-3)
        self.assertEqual(found["channel_absmax"].shape, (1, 64))
        self.assertEqual(tare.measures(x, "final_norm")["kurtosis"][0], found["kurtosis"][0])
        self.assertEqual(tare.measures(np.ones((1, 3, 9, 9), np.float32), "attn_logits")["absmax"].shape, (3,))
        q = np.ones((9, 3, 8), np.float32)
        self.assertEqual(tare.measures(q, "q", layout="thd")["absmax"].shape, (3,))
        self.assertEqual(tare.measures(q, "q", layout="htd")["absmax"].shape, (9,))
        self.assertEqual(tare.measures(q, "q", layout="THC")["absmax"].shape, (3,))
        self.refuses("layout: got none for q, expected one of thd htd bthd bhtd; try layout='thd'", tare.measures, q,
                     "q")
        self.refuses("layout: got 'tdh' for arrays by heads, expected one of thd", tare.measures, q, "q", layout="tdh")
        self.refuses("expected a numpy array or a PyTorch tensor", tare.measures, [1.0])
        self.refuses("nowhere.0: got an array of no site", tare.measures, x, "nowhere")

    def test_arrays_by_heads_have_a_layout(self):
        q = np.random.default_rng(1).standard_normal((2, 5, 3, 8), dtype=np.float32)
        turned = np.ascontiguousarray(q.transpose(0, 2, 1, 3))
        for name, options, array in (("A.h5", {"layout": "bthd"}, q), ("B.h5", {"layout": "bhtd"}, turned),
                                     ("C.h5", {"axes": {"q": {"axes": "BHTC"}}}, turned),
                                     ("D.h5", {"layout": "bhtd", "axes": {"q": {"axes": "BHTC"}}}, turned)):
            with tare.Statistics(self.folder / name, name="m", **options) as statistics:
                statistics.hook("q", 0)(None, (), array)
        found = [tare.open(self.folder / name)["q"]["absmax"].tolist() for name in ("A.h5", "B.h5", "C.h5", "D.h5")]
        self.assertEqual(found, [np.abs(q).max((0, 1, 3)).tolist()] * 4)
        self.assertEqual((self.folder / "A.h5").read_bytes(), (self.folder / "B.h5").read_bytes())

        def feed(site, array, **options):
            with tare.Statistics(self.folder / "X.h5", **options) as statistics:
                statistics.feed(site, 0, array)

        self.refuses("axes: got 'BHTD' for q and layout='bthd', expected the same, or one of the two; try without lay",
                     feed, "q", q, layout="bthd", axes={"q": {"axes": "BHTD"}})
        for site in "q", "k", "v", "head_out":
            self.refuses(f"layout: got none for {site}, expected one of thd", feed, site, q)
        self.refuses("q.0: got shape [2, 5, 3, 8], expected [tokens, heads, width] by layout='thd'; try layout='bthd'",
                     feed, "q", q, layout="thd")

    def test_refusals(self):
        def once(*fed, **options):
            with tare.Statistics(self.folder / "S.h5", **options) as statistics:
                statistics.feed(*fed)

        ones = np.ones((1, 2, 3), np.float32)
        self.refuses("layer_in.0: got an array of no site, expected one that plans have", once, "layer_in", 0, ones)
        (self.folder / "S.h5").write_text("notes")
        self.refuses("S.h5: got a file that no statistics are in, expected none", once, "layer_out", 0, ones)
        self.assertEqual((self.folder / "S.h5").read_text(), "notes")
        (self.folder / "S.h5").unlink()
        self.refuses("layer_out.0: got shape [3], expected BTC; try these dimensions, 1 for one", once,
                     "layer_out", 0, np.ones(3, np.float32))
        self.refuses("layer_out.0: got list, expected a numpy array or a PyTorch tensor", once, "layer_out", 0, [1.0])
        self.refuses("formats 'int5/row': got", once, "layer_out", 0, ones, formats="int5/row")
        self.refuses("sites 'nowhere': ", once, "layer_out", 0, ones, sites="nowhere")
        self.refuses("calibrate: got 'int5'", once, "layer_out", 0, ones, calibrate="int5")
        self.refuses("formats: int8/head: got none", once, "layer_out", 0, ones, sites="layer_out",
                     formats="int8/head")
        self.refuses("axes: got the key 'nowhere'", once, "layer_out", 0, ones, axes={"nowhere": {}})
        self.refuses("axes: got str, expected a dict or None", once, "layer_out", 0, ones, axes="q")
        self.refuses("path: got None, expected text or a path", tare.Statistics, None)
        self.refuses("site: got None, expected text", once, None, 0, ones)
        self.refuses("outside the block", tare.Statistics(self.folder / "S.h5").feed, "layer_out", 0, ones)
        self.refuses("got no folder", tare.Statistics(self.folder / "none" / "S.h5").__enter__)

        def nothing():
            with tare.Statistics(self.folder / "S.h5"):
                pass

        self.refuses("got no arrays, expected some", nothing)
        self.assertEqual(list(self.folder.iterdir()), [])
