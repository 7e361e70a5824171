#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh machine to the main table: installs the packages, builds, and compares the embedded pair, a standard and
# a differential model of the same size: their outliers, the cost of low-bit attention logits, and the sites to blame in
# four bits. Re-running is safe; finished steps are skipped.
#
# usage: tools/demo.sh [RESULTS]     RESULTS: folder for tables in JSON and CSV (default ./demo-results)
set -euo pipefail

# Sample sizes: within two minutes on two cores a share of needles found has a standard error of at most 0.06; those of
# changes, paired by item and by window, are smaller (docs/results/bits.md).
tokens=20440
items=75
bits=16,8,6,4
granularities=row,tensor

case "${1:-}" in
  -h | --help) sed -n '3,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "demo: got '$1', expected a folder; see --help" >&2; exit 2 ;;
esac
results=$(realpath -m "${1:-demo-results}")
cd "$(dirname "$0")/.."
pair=experiments/pair
models=("$pair/novels-standard" "$pair/novels-differential")
# Of the pair's sets of items the one that tells something: both models find one needle always, and fewer continuations
# than counting shared words does.
tasks=perplexity=$pair/heldout.txt,choice=$pair/needles-4.jsonl
title() { printf '\n[%d/5 %d:%02d] %s\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)) "$2" >&2; }

# Time needed, in minutes: packages two, the build eight on one core, the measurement four on one core.
cores=$(nproc) building=0
[ -x build/release/tare ] || building=$(((8 + cores - 1) / cores))
measuring=$(((4 + cores - 1) / cores))
printf 'demo: about %d minutes on %d free cores: packages 2, building %s, measuring %d. ' \
  $((2 + building + measuring)) "$cores" "$([ "$building" -gt 0 ] && echo $building || echo 'only changed files')" \
  $measuring >&2
echo 'Re-running is safe; finished steps are skipped.' >&2

title 1 'packages'
tools/setup.sh

title 2 'building build/release/tare'
cmake --preset release --log-level=WARNING >/dev/null
cmake --build --preset release
tare=$PWD/build/release/tare
mkdir -p "$results"

title 3 'the two models'
for model in "${models[@]}"; do
  "$tare" inspect "$model" --json "$results/inspect-$(basename "$model").json"
  echo
done

title 4 "outliers, accuracy against bits, and the cost of each site ($tokens tokens, $items items)"
"$tare" compare "${models[@]}" --site attn_logits --bits $bits --granularity $granularities \
  --tokens $tokens --limit $items \
  --tasks "$tasks" \
  --out "$results/compared"

tools/seen.sh "$results/compared/table.csv" "$results/compared/outliers.csv" | sed '1s/^/\n/'

title 5 'the report'
"$tare" report "$results/compared" "$results"/inspect-*.json --title 'Two models at low bit widths' \
  --out "$results/report.html"

printf '\n%d:%02d  Everything is in %s:\n' $((SECONDS / 60)) $((SECONDS % 60)) "$results"
(cd "$results" && find . -type f ! -name '*.part' | sort | sed 's|^\./|  |')
printf '\nThe page with all figures: %s\n' "$results/report.html"
[ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || printf 'To view it: xdg-open %s\n' "'$results/report.html'"
