#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/items.md, for results/make.sh.
#: rows.awk data/needles-by-depth.csv
