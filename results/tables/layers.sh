#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/layers.md, for results/make.sh.
#: rows.awk rows=^(largest|kurtosis),.*heldout columns=1,3,4,5,6,7 data/layers.csv
