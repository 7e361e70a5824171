#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/seeds.md, for results/make.sh.
#: seeds.awk csv=seeds rows=int4.tensor|^largest columns=1,2,8,9,10 bits-5/pairs.csv bits-1/outliers.csv
#:   bits-2/outliers.csv bits-3/outliers.csv bits-4/outliers.csv bits-5/outliers.csv
for seed in 1 2 3 4 5; do
  [ $seed -lt 5 ] && also= || also="--also bits-1 --also bits-2 --also bits-3 --also bits-4"
  tare compare experiments/pair/seeds/standard-$seed experiments/pair/seeds/differential-$seed --window 256 \
    --bits 16,8,6,4 --granularity tensor,row --tokens 20400 \
    --tasks perplexity=experiments/pair/heldout.txt,perplexity=experiments/pair/nowhere.txt --out bits-$seed $also
done
#: seed_caches.awk csv=seed-caches columns=1,7,8,9 caches-1/table.csv caches-2/table.csv caches-3/table.csv
#:   caches-4/table.csv caches-5/table.csv
for seed in 1 2 3 4 5; do
  tare compare experiments/pair/seeds/standard-$seed experiments/pair/seeds/differential-$seed --window 256 \
    --plan f32 --plan cache_k=int4/token --plan cache_v=int4/token --plan cache_k=int4/token,cache_v=int4/token \
    --tokens 20400 --attribute none --tasks perplexity=experiments/pair/heldout.txt --out caches-$seed
done
