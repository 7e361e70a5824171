#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/maps.md, for results/make.sh.
#: maps.awk csv=maps columns=1,2,3,4 maps.csv
tare maps experiments/pair/novels-differential --plan attn_logits=int4/row --plan k=int4/token \
  --input experiments/pair/heldout.txt --tokens 10220 --csv maps.csv
