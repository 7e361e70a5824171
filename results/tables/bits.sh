#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/bits.md, for results/make.sh.
#: bits.awk csv=bits rows=^perplexity bits/table.csv
tasks=perplexity=experiments/pair/heldout.txt
tasks+=,choice=experiments/pair/needles-4.jsonl
tasks+=,choice=experiments/pair/continuations.jsonl
tare sweep experiments/pair/novels-standard experiments/pair/novels-differential \
  --granularity row,tensor --tokens 20440 --limit 100 --out bits \
  --tasks $tasks
