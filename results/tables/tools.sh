#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/tools.md, for results/make.sh.
#: rows.awk rows=^standard.*(int4|Q4) columns=2,3,7,8 data/tools.csv
#: rows.awk columns=1,2,3 data/tools-whole.csv
