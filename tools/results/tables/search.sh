#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/search.md, for tools/results/make.sh.
#: search.awk csv=search standard/search.csv differential/search.csv
for model in standard differential; do
  tare search experiments/pair/novels-$model --within 0.02 --bits 8,4 --window 128 --tokens 2540 \
    --input experiments/pair/heldout.txt --out $model
done
#: rows.awk data/search-windows.csv
