#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/speed.md from the records of machines in docs/results/data/speed (tools/record.sh), for
# tools/results/make.sh: one CSV a question, and one of the shares of limits.
#: rows.awk csv=speed-prefill
#:  rows=^v1,.(early.int8,.blocks.of.256,.N|(int[48].early|b?f[13][26]|oneDNN.*int8|P.*|ggml.*f16),.N.2).*heads.[|]
#:  columns=1,4,5,6,7 without=v1,.|,.d.128.*heads prefill.csv
records() { jq -rn --arg question "$1" --arg what "$2" -f "$root/tools/results/machines.jq" data/speed/*.json; }
records prefill value >prefill.csv
#: rows.awk csv=speed-decode rows=^v1,.(int[48]|bf16|oneDNN|ik.*q4|ggml.*q4|onnxruntime).*16384.*heads.[|]
#:  columns=1,4,6,7 without=v1,.|,.16384.*heads decode.csv
records decode value >decode.csv
#: rows.awk csv=speed-prompt rows=(Q._0|f32|executed).[|] columns=1,3,4,6 prompt.csv
records prompt value >prompt.csv
#: rows.awk csv=speed-tokens rows=(Q._0|int[48]).[|].tok columns=1,3,5,7 tokens.csv
records tokens value >tokens.csv
#: rows.awk csv=speed-forward forward.csv
records forward value >forward.csv
#: rows.awk csv=speed-linear linear.csv
records linear value >linear.csv
#: rows.awk csv=speed-long long.csv
records long value >long.csv
#: rows.awk csv=speed-shares shares.csv
records 'prefill|decode' share >shares.csv
