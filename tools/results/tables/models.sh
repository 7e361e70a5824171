#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/models.md, for tools/results/make.sh.
#: models.awk csv=models compared/table.csv
tasks=perplexity=experiments/pair/heldout.txt
tasks+=,perplexity=experiments/pair/nowhere.txt
tasks+=,choice=experiments/pair/needles-4.jsonl
tare compare experiments/pair/novels-standard experiments/pair/novels-differential \
  --bits 16,8,6,4 --granularity tensor,head,row --tokens 20440 --limit 200 \
  --tasks $tasks \
  --out compared
