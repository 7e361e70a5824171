# SPDX-License-Identifier: Apache-2.0
"""A model for lm-evaluation-harness: its tasks, templates and examples over Tare's plans and caches. As the harness's
own command, with one model more:

    python3 -m tare.lm --model tare --model_args "pretrained=MODEL,plan=attn_logits=int4/row" --tasks arc_easy,wikitext

Arguments of the model: pretrained (a checkpoint folder or a quantized checkpoint); plan and cache, as `tare eval` takes
them, with ; for the commas inside; executed, math, threads and window, likewise. Chat templates and contexts beyond the
model's positions are refused. A document's first token is predicted from <s>; where
its tokenizer adds one, the harness's own models score that <s> too, and windows hold one token more.
"""
import json
import os
import tempfile

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from .program import run


@register_model("tare")
class TareLM(LM):
    """`tare eval` behind the harness's requests. batch_size, max_batch_size and device change nothing."""

    def __init__(self, pretrained, plan=None, cache=None, executed=None, math=None, threads=None, window=None,
                 batch_size=None, max_batch_size=None, device=None):
        super().__init__()
        self._model = str(pretrained)
        self._options = {"plan": plan and str(plan).replace(";", ","), "cache": cache and str(cache).replace(";", ","),
                         "executed": bool(executed), "math": math, "threads": threads}
        self._window = window

    def get_model_info(self):
        """For the harness's results."""
        return {"tare": {"model": self._model, **{k: v for k, v in self._options.items() if v}}}

    def _records(self, task, lines, **options):
        """One record per continuation or document."""
        with tempfile.TemporaryDirectory() as folder:
            file, records = os.path.join(folder, "requests.jsonl"), os.path.join(folder, "records.jsonl")
            with open(file, "w", encoding="utf-8") as out:
                for line in lines:
                    out.write(json.dumps(line) + "\n")
            run("eval", self._model, tasks=f"{task}={file}", records=records, quiet=True, **self._options, **options)
            with open(records, encoding="utf-8") as made:
                return [json.loads(record) for record in made]

    def loglikelihood(self, requests, disable_tqdm=False):
        lines = []  # continuations of one context share its computation
        for context, continuation in (request.args for request in requests):
            if not lines or lines[-1]["context"] != context:
                lines.append({"context": context, "continuation": []})
            lines[-1]["continuation"].append(continuation)
        records = self._records("loglikelihood", lines) if lines else []
        found = [(record["log_likelihood"], record["greedy"]) for record in records]
        for request, answer in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return found

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        lines = [{"text": request.args[0]} for request in requests]
        records = self._records("documents", lines, window=self._window) if lines else []
        found = [record["log_likelihood"] for record in records]
        for request, answer in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
        return found

    def generate_until(self, requests, disable_tqdm=False):
        # A line as the harness logs it; the target is not looked at, because the harness scores the answers itself.
        lines = [{"doc": {}, "target": "-", "arguments": [list(request.args)]} for request in requests]
        found = [record["answer"] for record in self._records("generate", lines)] if lines else []
        for request, answer in zip(requests, found, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, answer)
        return found


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
