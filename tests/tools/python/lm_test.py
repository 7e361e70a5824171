# SPDX-License-Identifier: Apache-2.0
"""tare.lm behind the requests that lm-evaluation-harness made (tests/data/harness), with stand-ins for the two modules
of the harness that it imports."""
import json
import sys
import types

import tare
from support import ROOT, Case

MODEL = ROOT / "experiments/pair/novels-standard"


class Request:
    def __init__(self, *args):
        self.args = args


class LM:
    def __init__(self):
        self.cache_hook = types.SimpleNamespace(add_partial=lambda *call: self.cached.append(call))
        self.cached = []


def model(**arguments):
    registered = {}
    for name, held in {"lm_eval": {}, "lm_eval.api": {}, "lm_eval.api.model": {"LM": LM},
                       "lm_eval.api.registry": {"register_model": lambda name: lambda made: registered.setdefault(
                           name, made)}}.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(held)
    sys.modules.pop("tare.lm", None)
    import tare.lm
    assert registered["tare"] is tare.lm.TareLM
    return tare.lm.TareLM(pretrained=MODEL, batch_size=1, device="cpu", **arguments)


def logged(task):
    with open(ROOT / f"tests/data/harness/samples_{task}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class LmTest(Case):
    def test_likelihoods_are_those_that_the_harness_logged(self):
        for task in "arc_easy", "winogrande", "lambada_openai":
            requests, expected = [], []
            for line in logged(task):
                requests += [Request(*arguments.values()) for arguments in line["arguments"].values()]
                found = line["filtered_resps"]
                expected += [found] if isinstance(found[0], str) else found
            lm = model()
            for (likelihood, greedy), wanted in zip(lm.loglikelihood(requests), expected, strict=True):
                self.assertAlmostEqual(likelihood, float(wanted[0]), delta=1e-3)
                self.assertEqual(str(greedy), wanted[1])
            self.assertEqual(len(lm.cached), len(requests))

    def test_documents_in_windows(self):
        lines = logged("wikitext")
        found = model(window=32).loglikelihood_rolling([Request(line["arguments"]["gen_args_0"]["arg_0"])
                                                        for line in lines])
        for likelihood, line in zip(found, lines, strict=True):
            self.assertAlmostEqual(likelihood, float(line["filtered_resps"][0]), delta=0.035)

    def test_a_plan_of_several_rules_and_a_cache(self):
        requests = [Request("The captain came on", " deck"), Request("The captain came on", " the")]
        plain = model().loglikelihood(requests)
        plan = model(plan="attn_logits=int4/row;k=int4/token").loglikelihood(requests)
        cache = model(cache="cache_k=int4/token;cache_v=int4/token").loglikelihood(requests)
        self.assertNotEqual(plan, plain)
        self.assertNotEqual(cache, plain)
        self.assertEqual(model(plan="k=int4/token").get_model_info(),
                         {"tare": {"model": str(MODEL), "plan": "k=int4/token"}})

    def test_answers_are_those_of_the_program(self):
        prompts = ["The captain came on", "It was a dark night"]
        lm = model()
        found = lm.generate_until([Request(prompt, {"until": [], "max_gen_toks": 8, "do_sample": False})
                                   for prompt in prompts])
        for prompt, answer in zip(prompts, found, strict=True):
            self.assertEqual(answer, tare.run("generate", MODEL, prompt=prompt, tokens=8)["text"])
        self.assertEqual(len(lm.cached), 2)
        stopped = lm.generate_until([Request(prompts[0], {"until": found[0][3:5], "max_gen_toks": 8})])
        self.assertEqual(stopped, [found[0][:found[0].find(found[0][3:5])]])

    def test_refusals(self):
        self.refuses("plan, column", model(plan="attn_logits=int5").loglikelihood, [Request("a", " b")])
        self.refuses("num_beams", model().generate_until, [Request("a", {"num_beams": 4})])
        self.assertEqual(model().generate_until([]), [])
        self.assertEqual(model().loglikelihood([]), [])
        self.assertEqual(model().loglikelihood_rolling([]), [])
