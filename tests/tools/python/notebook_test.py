# SPDX-License-Identifier: Apache-2.0
"""The notebook, cell by cell, on a tiny sweep: its table is the sweep's, its figure a drawing."""
import json
import os
import unittest
from unittest import mock

import tare
from support import ROOT, Case, program

try:
    import pandas
except ImportError:
    pandas = None


@unittest.skipIf(pandas is None, "no pandas")
class NotebookTest(Case):
    def test_bits(self):
        pair, sweep = ROOT / "experiments/pair", self.folder / "sweep"
        models = pair / "novels-standard", pair / "novels-differential"
        (self.folder / "heldout.txt").write_text((pair / "heldout.txt").read_text()[:20000])
        program("sweep", *models, "--bits", "16,4", "--granularity", "row,tensor", "--tokens", 32, "--tasks",
                f"perplexity={self.folder}/heldout.txt", "--out", sweep)
        notebook, names = json.loads((ROOT / "tools/python/bits.ipynb").read_text()), {}
        with mock.patch.dict(os.environ, TARE_SWEEP=str(sweep)):
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    self.assertEqual(cell["outputs"], [])
                    exec("".join(cell["source"]), names)
        table = names["table"]
        self.assertEqual((list(table.columns), len(table)), ([16, 4], 4))
        for row in tare.open(sweep).rows:
            if row["figure"] != "perplexity":
                continue
            for granularity in [row["granularity"]] if row["granularity"] else ["row", "tensor"]:
                entry = table.loc[("perplexity", granularity, row["model"]), row["bits"]]
                change = f" ({row['change']:+.3f})" if row["granularity"] else ""
                self.assertEqual(entry, f"{row['value']:.3f}{change}")
        self.assertTrue(names["figure"]._repr_svg_().startswith("<svg"))
