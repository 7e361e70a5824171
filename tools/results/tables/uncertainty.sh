#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The table of docs/reference/uncertainty.md, for tools/results/make.sh.
#: rows.awk columns=1,2,3,5,7 data/coverage.csv
#:   rows=^(w.*(.normal|exponential|normal.1.|normal.*,.neighbours.0.6).[|]|samples.*exp|diff.*.normal.[|]|.*five)
