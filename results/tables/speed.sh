#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/speed.md, for results/make.sh.
#: rows.awk rows=^(INT8.V1.*(error|own|Graph).*Zen.4|decoding,.V1,.16.*Zen.4) columns=1,2,3,5,7 data/speed.csv
#: rows.awk rows=^prompt.of.512.*[|].1.[|].*Xeon columns=2,3,5 data/speed.csv
