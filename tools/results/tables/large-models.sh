#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/large-models.md, for tools/results/make.sh.
#: rows.awk rows=^AMD columns=2,3,6,9,11 data/large-models.csv
#: rows.awk rows=eval,.perp|all.sites,.--out.?.[|]|generate|window.of.131,072.?.[|] data/long-windows.csv
