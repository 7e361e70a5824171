#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/tools.md, for results/make.sh.
#: rows.awk rows=^standard columns=2,3,6,7,8 data/tools.csv
#: rows.awk data/tools-whole.csv
