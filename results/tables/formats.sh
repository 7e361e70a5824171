#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/formats.md, for results/make.sh.
#: formats.awk on=heldout csv=formats rows=int8,.a|mxint8|mxfp8e4m3|mxfp6e2m3|int4,.a|mxfp4.[|]|nvfp4|nf4,.a
#:   columns=2,3,4,5,6,7,8 formats/table.csv
plan() { for rules in "$@"; do plans+=(--plan "$rules"); done; }
per_row() { plan weights=$1/channel linear_in=$1/token q=$1/token,k=$1/token v=$1/token attn_logits=$1/row; }
per_16() { plan weights=$1/group16 linear_in=$1/group16 v=$1/block16.channel; }
own_blocks() { plan weights=$1 linear_in=$1 q=$1,k=$1 v=$1 attn_logits=$1; }
plans=()
per_row int8; per_16 int8; own_blocks mxint8; own_blocks mxfp8e4m3; own_blocks mxfp8e5m2; per_row fp8e4m3
per_row int6; per_16 int6; own_blocks mxfp6e2m3; own_blocks mxfp6e3m2
per_row int4; per_16 int4; own_blocks mxfp4; own_blocks mxfp4:rceil; own_blocks nvfp4; per_row nf4
plan weights=nf4/group16 linear_in=nf4/group16 weights=ternary/channel weights=ternary/group16
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt --tokens 10220 --out formats
#: blocks.awk csv=blocks,blocks-nowhere tables=1 rows=^(16|64|256) blocks/table.csv
plans=()
for site in weights,down_proj.w linear_in,down_proj.in; do
  for format in int4 'grid(-6 -4 -3 -2 -1.5 -1 -0.5 0 0.5 1 1.5 2 3 4 6)'; do
    for block in 16 32 64 128 256; do plans+=(--plan "${site%,*}=$format/group$block,${site#*,}=f32"); done
  done
done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" --tokens 20440 \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt --out blocks
#: formats.awk on=nowhere csv=formats-nowhere formats/table.csv
