#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/remedies.md, for results/make.sh.
#: options.awk csv=remedies columns=1,2,3,4 remedies/cells.jsonl
plans=()
for plan in v=int4/token{,+hadamard,+keep4} v=nvfp4{,+hadamard} q=nvfp4,k=nvfp4 q=nvfp4+hadamard,k=nvfp4+hadamard \
  attn_logits=int4/row{,+maxshift,+sink} attn_logits=f32+sink; do
  plans+=(--plan $plan)
done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt \
  --window 256 --tokens 10200 --out remedies
#: options.awk csv=rotations rows=^.(down|linear_in=int4|weights.*linear|q=).*[+]hadamard[^1] columns=1,2,3,4
#:   rotations/cells.jsonl
plans=()
for plan in down_proj.in=int4/token linear_in=int4/token weights=int4/group16 linear_in=nvfp4; do
  plans+=(--plan $plan --plan $plan+hadamard16 --plan $plan+hadamard)
done
for o in '' +hadamard16 +hadamard; do plans+=(--plan weights=int4/group16$o,linear_in=int4/token$o); done
for o in '' +hadamard; do plans+=(--plan q=int4/token$o,k=int4/token$o); done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt \
  --window 256 --tokens 10200 --out rotations
