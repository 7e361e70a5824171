#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/items.md, for results/make.sh.
#: rows.awk columns=1,2,3,5,7,8 data/needles-by-depth.csv
