#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/cache.md, for results/make.sh.
#: sites.awk csv=caches columns=1,2,3,4 caches/table.csv
plans=()
for rules in cache_k=int8/token,cache_v=int8/token cache_k=int4/token cache_v=int4/token cache_v=int4/token+hadamard \
  cache_k=int4/token,cache_v=int4/token cache_k=int4/channel,cache_v=int4/channel; do
  plans+=(--plan $rules)
done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt \
  --window 256 --tokens 10200 --out caches
#: sites.awk csv=kivi rows=^3.00 columns=1,2,3,4 kivi/table.csv
plans=()
for bits in 4 3 2; do
  for rule in token+min token+min+hadamard block32.channel+min; do
    plans+=(--plan k=int$bits/$rule --plan v=int$bits/$rule)
  done
  for k in token+min token+min+hadamard block32.channel+min; do
    v=${k/block32.channel/token}
    plans+=(--plan k=int$bits/$k,v=int$bits/$v)
  done
  plans+=(--plan k=int$bits/block32.channel+min,v=int$bits/block32.channel+min)
done
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential "${plans[@]}" \
  --tasks divergence=experiments/pair/heldout.txt,divergence=experiments/pair/nowhere.txt \
  --window 256 --tokens 10200 --out kivi
#: rows.awk rows=^(3|5) columns=1,2,3,4 data/caches-decoded.csv
