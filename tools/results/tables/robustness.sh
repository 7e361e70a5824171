#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The table of docs/reference/robustness.md, for tools/results/make.sh.
#: rows.awk rows=^[^,|]+[|] columns=1,2 data/robustness.csv
