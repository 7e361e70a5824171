#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/outliers.md, for results/make.sh.
#: outliers.awk csv=outliers columns=1,2,3,4,7,8,9 outliers.csv
tare stats experiments/pair/novels-standard experiments/pair/novels-differential \
  --input experiments/pair/heldout.txt --tokens 20440 --csv outliers.csv
