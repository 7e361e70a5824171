# SPDX-License-Identifier: Apache-2.0
"""tare.run: what the program says as JSON, and what it refuses in its words."""
import json

import tare
from support import ROOT, Case, program

MODEL = ROOT / "tests/data/golden/diffllama-mha"


class RunTest(Case):
    def test_the_programs_json(self):
        self.assertEqual(tare.run("inspect", MODEL), json.loads(program("inspect", MODEL, "--json", "-")))
        found = tare.run("eval", MODEL, plan="attn_logits=int6/row", tasks=f"perplexity={MODEL}/expected.safetensors")
        self.assertEqual(found["plan"], "attn_logits=int6/row")

    def test_where_json_goes_elsewhere_or_nowhere(self):
        self.assertEqual(tare.run("inspect", [MODEL]), tare.run("inspect", MODEL))
        self.assertIsNone(tare.run("inspect", MODEL, json=self.folder / "i.json"))
        self.assertIn("family", json.loads((self.folder / "i.json").read_text()))
        self.assertIsNone(tare.run("manual", json=None))

    def test_refusals_are_the_programs(self):
        self.refuses("nowhere", tare.run, "inspect", self.folder / "nowhere")
        self.refuses("plan, column", tare.run, "eval", MODEL, plan="attn_logits=int5",
                     tasks=f"perplexity={MODEL}/expected.safetensors")
        self.refuses("--help for more", tare.run, "eval", MODEL, no_such_option=3)
