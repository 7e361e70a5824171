#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/sites.md, for tools/results/make.sh.
#: sites.awk csv=sites
#:   rows=^.(v|k|q|attn_logits|probs|o_proj.w|down_proj.w|v_proj.in|o_proj.in|gate_proj.in|down_proj.in)=
#:   columns=1,2,3,4 sites/table.csv
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential \
  --site q,k,v,attn_logits,probs,weights,linear_in --each-site --bits 16,4 \
  --granularity row --tokens 20440 --out sites \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt
#: parts.awk csv=parts rows=(down_proj|o_proj|^.?[kv].?.[|]|sum|left|whole) compared/attribution.csv
#:   compared/attribution-A/attribution.csv compared/attribution-B/attribution.csv
tare compare experiments/pair/novels-standard experiments/pair/novels-differential \
  --bits 16,4 --granularity tensor --tokens 20440 --attribute-tokens 20440 --out compared \
  --tasks perplexity=experiments/pair/heldout.txt
