#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tare_benchmarks works: small cases of every kernel are checked and timed (the times decide nothing), what it is asked
# for wrongly is refused, and the first word of each name is a source and a test.
# usage: benchmarks_test.sh PROGRAM ROOT
set -euo pipefail
program=${1:?usage: benchmarks_test.sh PROGRAM ROOT}
cd "${2:?usage: benchmarks_test.sh PROGRAM ROOT}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
wrong() { echo "$1"; bad=1; }

"$program" --benchmark_list_tests >"$work/names"
[ "$(wc -l <"$work/names")" -gt 500 ] || wrong "got $(wc -l <"$work/names") names, expected more than 500"

# CamelCase is a file's name in snake_case.
while read -r word; do
  file=$(sed 's/[A-Z]/_\l&/g; s/^_//' <<<"$word")
  [ -n "$(find kernels experiments/bench -name "$file.h" -o -name "$file.cc" -o -name "$file-inl.h")" ] ||
    wrong "$word: got no source $file, expected the first word of a benchmark's name to be one"
  [ -n "$(find tests/kernels tests/experiments/bench -name "${file}_test.cc")" ] ||
    wrong "$word: got no ${file}_test.cc"
done < <(cut -d/ -f1 "$work/names" | sort -u)

# Of each kernel and what it does the smallest case, of one format.
small=$(awk -F/ '$0 ~ "/threads:1/" && !seen[$1 "/" $2]++' "$work/names")
filter="^($(sed 's/[+.]/\\&/g' <<<"$small" | paste -sd'|'))\$"
"$program" --benchmark_filter="$filter" --benchmark_min_time=1x --benchmark_format=json >"$work/json" ||
  wrong "got exit $? of small cases"
[ "$(grep -c '"run_name"' "$work/json")" = "$(wc -l <<<"$small")" ] || wrong "got other cases than asked for"
! grep -q '"error_occurred": true' "$work/json" || { grep error_message "$work/json"; wrong 'got a wrong output'; }
for counter in ns_per_pair ns_per_key_and_head ns_per_value 'Gop/s' 'GB/s' 'roofline_%'; do
  grep -q "\"$counter\": [0-9]" "$work/json" || wrong "got no counter $counter"
done

# refused EXIT TEXT ARGUMENT...
refused() {
  local exit=0 expected=$1 text=$2
  shift 2
  "$program" "$@" >/dev/null 2>"$work/err" || exit=$?
  [ "$exit" = "$expected" ] || wrong "$*: got exit $exit, expected $expected"
  grep -qF -- "$text" "$work/err" || { wrong "$*: got no '$text' on standard error"; cat "$work/err"; }
}
refused 1 "--benchmark_filter: got 'NoSuchKernel'" --benchmark_filter=NoSuchKernel
refused 1 "--benchmark_filter: got '('" '--benchmark_filter=('
refused 2 "--threads: got 'x'" --threads=1,x
refused 2 "--threads: got ''" --threads=
refused 2 'unrecognized command-line flag' --no-such-option
exit $bad
