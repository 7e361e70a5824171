#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes a sweep as a file of commands, one cell per line, for any program that runs lines on many machines; the last
# line, a comment, merges the cells. Re-running a killed line is safe: a cell is written completely or not at all, and a
# finished one is skipped.
#
# usage: tools/cluster/cells.sh TARE OUT SWEEP... > cells.txt      SWEEP: models and options of tare sweep,
# except --out
#
#   GNU parallel       parallel < cells.txt
#   HyperQueue         hq submit --wait --each-line cells.txt -- bash -c 'eval "$HQ_ENTRY"'
#   Slurm              tools/cluster/slurm.sh cells.txt
#   then               sed -n 's/^# //p' cells.txt | bash
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3,13s/^# \{0,1\}//p' "$0"; exit 2; }
tare=$1 out=$2
shift 2

mkdir -p "$out"
list=$("$tare" sweep "$@" --out "$out" --list)
count=$(wc -l <<<"$list")
parts=()
for ((k = 0; k < count; k++)); do
  printf '%q ' "$tare" sweep "$@" --cells "$k" --out "$out/cell-$k"
  echo '>/dev/null'
  parts+=(--merge "$out/cell-$k")
done
printf '# %s\n' "$(printf '%q ' "$tare" sweep "$@" --out "$out/all" "${parts[@]}")"
