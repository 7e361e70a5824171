#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the PyTorch hook of docs/examples/capture.py on a small random model, and measures what it saved. Skipped (77)
# unless Python has torch, transformers and safetensors.
# usage: capture_test.sh TARE PROGRAM
set -euo pipefail
tare=$1 program=$2
python3 -c 'import torch, transformers, safetensors' 2>/dev/null ||
  { echo 'capture_test: Python lacks torch, transformers or safetensors; try pip install (400 MB)'; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$program" "$work/hook.py"
cat >"$work/run.py" <<'PYTHON'
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, sys.argv[1])
from hook import Capture

torch.manual_seed(0)
config = LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, bos_token_id=None, eos_token_id=None, attn_implementation="eager")
model = LlamaForCausalLM(config).eval()
model.save_pretrained(sys.argv[1] + "/model")
ids = torch.randint(0, 96, (3, 40))
capture = Capture(model)
with torch.no_grad():
    out = model(ids, output_attentions=True)
capture.save(sys.argv[1] + "/captured.safetensors", input_ids=ids,
             **{f"probs.{i}": p for i, p in enumerate(out.attentions)})
model.set_attn_implementation("sdpa")
capture = Capture(model)
with torch.no_grad(), capture.attention():
    model(ids)
capture.save(sys.argv[1] + "/attention.safetensors")
PYTHON
python3 "$work/run.py" "$work"
# head_out must agree with q, k and v.
"$tare" stats --tensors "$work/attention.safetensors" --plan attn_logits=int4/row | grep -q '^head_out.1, nmse: '
"$tare" stats --tensors "$work/captured.safetensors" --name model --formats int8/row --out "$work/captured.h5"
"$tare" stats "$work/model" --input "$work/captured.safetensors" --sites layer_out,o_proj.in,down_proj.in,probs \
  --formats int8/row \
  --out "$work/model.h5" >/dev/null

# Both programs run one model, so figures agree to three digits (output_error_* needs V: only the model's file has
# it).
for site in layer_out o_proj.in down_proj.in probs; do
  for file in captured model; do
    "$tare" stats show "$work/$file.h5" --site $site --json - | python3 -c '
import json, sys
for row in json.load(sys.stdin)["rows"]:
    print(row["layer"], row["head"], row["count"],
          *("%.3g" % row[k] for k in ("absmax", "median", "p99", "variance", "kurtosis")))' >"$work/$file.txt"
  done
  diff "$work/captured.txt" "$work/model.txt"
done
