#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/keep.md, for results/make.sh.
#: rows.awk data/keep.csv
