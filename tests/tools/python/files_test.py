# SPDX-License-Identifier: Apache-2.0
"""tare.open on what the program writes: the same figures as the program's own JSON, and refusals of other files."""
import collections.abc
import gc
import json
import pickle
import shutil
import subprocess
import sys
import unittest

import numpy as np
import tare
try:
    import h5py
except ImportError:
    h5py = None
from support import ROOT, Case, program

MODEL = ROOT / "tests/data/golden/diffllama-mha"


class StatisticsTest(Case):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "S.h5"
        np.savez(self.folder / "captured.npz", **{
            "layer_out.0": np.random.default_rng(0).standard_normal((2, 9, 8), dtype=np.float32),
                                                  "attn_logits.0": np.ones((2, 3, 9, 9), np.float32)})
        program("stats", "--tensors", self.folder / "captured.npz", "--formats", "int8/row", "--out", self.path)

    def test_figures_are_the_programs(self):
        file = tare.open(self.path)
        self.assertEqual((file.tokens, file.formats, file.sites), (18, ["int8/row"], ["attn_logits", "layer_out"]))
        self.assertEqual((file.job["model"], file.job["sequences"]), ("captured", "2"))
        for site in file.sites:
            rows = json.loads(program("stats", "show", self.path, "--site", site, "--json", "-"))["rows"]
            for part, of in (0, file), (1, file.rest):
                for name in "layer", "count", "absmax", "kurtosis", "p99":
                    self.assertEqual([row[name] for row in rows if row["from"] == part],
                                     [None if np.isnan(x) else x for x in of[site][name].tolist()], (site, name))
        self.assertEqual((file.skip_first, file.rest.sites), (1, file.sites))
        self.assertEqual(file["layer_out"]["count"] - file.rest["layer_out"]["count"], 2 * 8)
        self.assertEqual(file["layer_out"]["channel_absmax"].shape, (1, 8))

    def test_it_is_a_mapping_that_prints_and_can_be_pickled(self):
        file = tare.open(self.path)
        self.assertIsInstance(file, collections.abc.Mapping)
        self.assertEqual((list(file), len(file), "layer_out" in file, "probs" in file),
                         (["attn_logits", "layer_out"], 2, True, False))
        self.assertIsNone(file.get("probs"))
        self.assertEqual(repr(file), f"<tare.StatisticsFile {str(self.path)!r}: attn_logits layer_out>")
        again = pickle.loads(pickle.dumps(file))
        self.assertTrue(np.array_equal(again["layer_out"]["absmax"], file["layer_out"]["absmax"]))
        self.assertEqual(pickle.loads(pickle.dumps(file["layer_out"])).keys(), file["layer_out"].keys())
        self.assertIn("Statistics", dir(tare))

    def test_a_damaged_dataset_is_refused_as_often_as_it_is_asked_for(self):
        absmax = tare.open(self.path)["layer_out"]["absmax"].tobytes()
        bytes_ = bytearray(self.path.read_bytes())
        bytes_[bytes_.index(absmax)] ^= 1
        self.path.write_bytes(bytes_)
        file = tare.open(self.path)
        for _ in range(2):
            self.refuses("dataset 'layer_out/absmax': damaged", file.__getitem__, "layer_out")

    @unittest.skipIf(h5py is None, "no h5py")
    def test_it_opens_beside_h5py_in_either_order(self):
        with h5py.File(self.path):
            first = tare.open(self.path)["layer_out"]["absmax"]
        file = tare.open(self.path)
        with h5py.File(self.path) as other:
            self.assertTrue(np.array_equal(other["layer_out/absmax"], first))
        self.assertTrue(np.array_equal(file["layer_out"]["absmax"], first))

    def test_a_file_that_is_cut_after_it_was_opened_is_what_it_was_or_refused(self):
        file, other = tare.open(self.path), tare.open(self.path)
        arrays = file["layer_out"]
        before = {name: array.copy() for name, array in arrays.items()}
        with self.path.open("r+b") as cut:
            cut.truncate(100)
        for name, array in arrays.items():
            self.assertTrue(np.array_equal(array, before[name], equal_nan=True), name)
        try:
            for name, array in other["attn_logits"].items():
                self.assertEqual(array.shape[0], 3, name)
        except ValueError as error:
            self.assertIn(str(self.path), str(error))
        self.refuses(str(self.path), tare.open, self.path)

    def test_the_garbage_collector_may_run_anything_while_an_array_is_made(self):
        # In a process of its own, in which the first array imports numpy, and so runs the collector.
        script = f"""
import gc, signal, sys, tare
signal.alarm(60)
class Loop:
    def __init__(self):
        self.loop = self
    def __del__(self):
        tare._tare.File({str(self.path)!r}).names()
file = tare._tare.File({str(self.path)!r})
loops = [Loop() for _ in range(100)]
gc.collect()
gc.set_threshold(50)
loops = None
before = "numpy" in sys.modules
print(before, file.array("units").tolist())
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "False [1]\n", ""))

    def test_arrays_are_views_that_keep_the_file(self):
        absmax = tare.open(self.path)["layer_out"]["absmax"]
        gc.collect()
        self.assertFalse(absmax.flags.writeable or absmax.flags.owndata)
        self.assertGreater(absmax[0], 1)

    def test_frames(self):
        file = tare.open(self.path)
        try:
            import pandas
        except ImportError:
            return self.refuses("got no pandas", file.frame, "attn_logits")
        frame = file.frame("attn_logits")
        self.assertEqual((len(frame), list(frame["head"]), frame["absmax"].max()), (3, [0, 1, 2], 1))
        self.assertIsInstance(frame, pandas.DataFrame)

    def test_refusals(self):
        self.refuses("probs: got no such site, expected one of attn_logits layer_out",
                     tare.open(self.path).__getitem__, "probs")
        captured = self.folder / "captured.npz"
        program("stats", "--tensors", captured, captured, "--shard", "0/2", "--out", self.folder / "shard.h5")
        self.refuses("shard.h5: got 1 of 2 batches, expected all: it is a shard", tare.open, self.folder / "shard.h5")
        with self.assertRaises(FileNotFoundError) as caught:
            tare.open(self.folder / "nowhere.h5")
        self.assertEqual(caught.exception.filename, str(self.folder / "nowhere.h5"))
        (self.folder / "text.h5").write_text("no HDF5")
        self.refuses("text.h5", tare.open, self.folder / "text.h5")
        bytes_ = bytearray(self.path.read_bytes())
        place = bytes_.index(b"tare.stats.file/2")
        bytes_[place + 16:place + 17] = b"9"  # the header's checksum no longer holds either
        (self.folder / "other.h5").write_bytes(bytes_)
        self.refuses("other.h5", tare.open, self.folder / "other.h5")
        program("dump", MODEL, "--input", MODEL / "expected.safetensors", "--sites", "logits", "--out",
                self.folder / "dump.h5")
        self.refuses("expected one of tare.stats.file/2 tare.quantized/1 tare.quantized/2 tare.quantized/3 "
                     "tare.quantized/4 tare.quantized/5 tare.quantized/6; try the version", tare.open,
                     self.folder / "dump.h5")


class QuantizedCheckpointTest(Case):
    def test_weights_are_those_that_the_program_writes_as_floats(self):
        program("quantize", MODEL, "--plan", "weights=int4/group16", "--out", self.folder / "Q.h5")
        file = tare.open(self.folder / "Q.h5")
        self.assertEqual((file.provenance["plan"], file.provenance["method"]), ("weights=int4/group16", "rtn"))
        name = file.matrices[0]
        quantized = file.quantized(name)
        self.assertEqual((quantized.format, quantized.group, quantized.shape), ("int4", 16, file[name].shape))
        again = tare.quantize(file[name], "int4/group16")  # codes of codes are the same codes
        self.assertTrue(np.array_equal(again.codes, quantized.codes))
        self.assertEqual(file[file.tensors[0]].dtype, np.float32)
        self.refuses("none: got no such tensor, expected one of ", file.__getitem__, "none")
        self.assertIn(name, file)
        self.assertEqual(list(file), file.matrices + file.tensors)
        self.assertTrue(np.array_equal(pickle.loads(pickle.dumps(file))[name], file[name]))
        values, codes = file[name], quantized.codes.copy()
        with (self.folder / "Q.h5").open("r+b") as cut:  # nothing of what was opened changes
            cut.truncate(4096)
        del file
        gc.collect()
        self.assertTrue(np.array_equal(quantized.dequantize(), values))
        self.assertTrue(np.array_equal(quantized.codes, codes))


class SweepTest(Case):
    def test_rows_are_the_tables(self):
        (self.folder / "table.json").write_text('{"schema": "tare.sweep/3", "cells": [{"model": "m"}]}')
        shutil.copy(ROOT / "experiments/pair/bits.csv", self.folder / "table.csv")
        sweep = tare.open(self.folder)
        self.assertEqual(sweep.cells, [{"model": "m"}])
        self.assertEqual([sweep.rows[0][key] for key in ("model", "bits", "value", "stderr")],
                         ["novels-standard", 16, 29.332, None])

    def test_refusals(self):
        self.refuses("got no such file, expected the folder of a finished sweep; try the same tare sweep again",
                     tare.open, self.folder)
        (self.folder / "table.json").write_text('{"schema": "tare.sweep/2"}')
        self.refuses("got schema 'tare.sweep/2', expected 'tare.sweep/3'; try", tare.open, self.folder)
        (self.folder / "table.json").write_text("{")
        self.refuses("table.json: got no JSON", tare.open, self.folder)
        (self.folder / "table.json").write_text("[" * 100_000 + "]" * 100_000)
        self.refuses("table.json: got no JSON", tare.open, self.folder)
        (self.folder / "table.json").write_text('{"schema": "tare.sweep/3"}')
        self.refuses("table.json: got no list of cells", tare.open, self.folder)
        (self.folder / "table.json").unlink()
        (self.folder / "attribution.json").write_text("{}")
        self.refuses("got the folder of tare attribute, expected that of tare sweep or compare; try json.load",
                     tare.open, self.folder)
        np.savez(self.folder / "c.npz", q=np.ones(3))
        self.refuses("c.npz: got arrays, expected HDF5 that tare wrote or the folder of a sweep; try numpy.load(",
                     tare.open, self.folder / "c.npz")
        self.refuses("attribution.json: got a JSON file, expected HDF5 or the folder of a sweep", tare.open,
                     self.folder / "attribution.json")


if __name__ == "__main__":
    unittest.main()
