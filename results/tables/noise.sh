#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/noise.md, for results/make.sh.
#: rows.awk columns=1,2,3,4 data/noise.csv
