#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/cache-formats.md, for results/make.sh.
#: sites.awk csv=literature rows=^(3.00|3.16|2.66|2.50|2.75|2.41|2.32).*(int2|normal[12]) columns=1,2,3,4
#:   literature/table.csv
kvquant=/channel+min+outliers1+prerotary plans=()
for b in 4 3 2; do
  for rules in int$b/token+min,int$b/token+min \
    int$b/block32.channel+min,int$b/group32+min \
    int$b$kvquant,int$b/token+min+outliers1 int$b$kvquant,int$b/token+min \
    normal$b${kvquant/min/mean},int$b/token+min \
    normal$b/token+hadamard,normal$b/token+hadamard normal$((b - 1))/token+hadamard+sketch,normal$b/token+hadamard \
    int$b$kvquant,normal$b/token+hadamard int$b$kvquant,int$b/channel+min+outliers1; do
    plans+=(--plan k=${rules%,*},v=${rules#*,})
  done
done
for rule in int8/token fp8e4m3/token mxfp8e4m3 mxfp6e2m3 nvfp4 mxfp4; do plans+=(--plan k=$rule,v=$rule); done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt \
  --window 256 --tokens 10200 --out literature
