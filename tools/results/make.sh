#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Regenerates the tables of a page of results. Between the lines
#
#     <!-- generated: tools/results/make.sh QUESTION -->
#     <!-- end -->
#
# of docs/results/QUESTION.md, or else docs/reference/QUESTION.md, is a table, or several. tables/QUESTION.sh has a part
# for each such block, in their order:
#
#     #: TABLE.awk [NAME=VALUE...] FILE...
#     commands
#
# where lines that begin with "#:  " continue the one before, and parts beyond the last block only write their CSV.
# The commands run in build/results/QUESTION; TABLE.awk turns the FILEs that they write into tables. A FILE
# data/NAME.csv is one of docs/results/data. csv=NAME,... writes the tables to docs/results/data/NAME.csv, and the page
# shows the part that tables=, rows=, columns= and without= choose (select.awk). A finished run is not repeated.
#
# usage: tools/results/make.sh QUESTION [TARE [PAGE]]
#   TARE   the program (default build/release/tare); -: none, tables with csv= are made from their CSV files, where code
#          and the answer's row are not marked as such. Then it needs a PAGE
#   PAGE   written instead of QUESTION.md; then no CSV is written
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD question=${1:-}
page=$root/docs/results/$question.md parts=$root/tools/results/tables/$question.sh
[ -e "$page" ] || page=$root/docs/reference/$question.md
[ -n "$question" ] && [ -e "$parts" ] || {
  echo "make: got '$question', expected one of:" $(ls tools/results/tables | sed 's/[.]sh$//') >&2
  exit 2
}
tare=${2:-build/release/tare} out=$(realpath -m "${3:-$page}")
[ "$tare" = - ] && [ "$out" != "$page" ] || {
  tare=$(realpath "$tare")
  [ -x "$tare" ] || { echo "make: got no program $tare; try: cmake --build --preset release" >&2; exit 1; }
}
tare() { "$tare" "$@"; }

# part N commands, part N table: the commands of the Nth part; its script, values and files.
part() {
  awk -v n="$1" -v what="$2" '
    /^#: / {
      if (/^#: [^ ]/) inside = ++part == n
      if (inside && what == "table") printf "%s ", substr($0, 4)
      next
    }
    inside && what == "commands"' "$parts"
}
# value NAME WORD...: what NAME=... says, if anything.
value() { printf '%s\n' "${@:2}" | sed -n "s/^$1=//p"; }

mkdir -p "build/results/$question"
cd "build/results/$question"
[ -e experiments ] || ln -s "$root/experiments" .
[ -e data ] || ln -s "$root/docs/results/data" .
cp "$page" made.md
for n in $(seq "$(grep -c '^#: [^ ]' "$parts")"); do
  part "$n" commands >commands.sh
  read -ra words <<<"$(part "$n" table)"
  csv=$(value csv "${words[@]}")
  if [ "$tare" = - ] && [ -z "$csv" ] && grep -q '^[^#]' commands.sh; then
    echo "make: $parts: got part $n without csv=, expected the files of its tables" >&2
    exit 1
  fi
  files=()
  for word in "${words[@]:1}"; do
    [[ $word =~ ^(csv|tables|rows|columns|without)= ]] || files+=("$word")
  done
  if [ "$tare" = - ] && [ -n "$csv" ]; then
    for name in ${csv//,/ }; do
      awk -f "$root/tools/results/csv.awk" -f "$root/tools/results/rows.awk" "data/$name.csv"
      echo
    done >all.md
  else
    source ./commands.sh >&2
    awk -f "$root/tools/results/csv.awk" -f "$root/tools/results/${words[0]}" "${files[@]}" >all.md
  fi
  if [ -n "$csv" ] && [ "$out" = "$page" ]; then
    awk -v names="$csv" -v folder="$root/docs/results/data" -f "$root/tools/results/to_csv.awk" all.md
  fi
  awk -v tables="$(value tables "${words[@]}")" -v rows="$(value rows "${words[@]}")" \
    -v columns="$(value columns "${words[@]}")" -v without="$(value without "${words[@]}")" \
    -f "$root/tools/results/select.awk" all.md >table.md
  awk -v n="$n" -v begin="^<!-- generated: .*make[.]sh $question -->" '
    $0 ~ begin { inside = ++part == n; print; if (inside) while ((getline line <"table.md") > 0) print line; next }
    /^<!-- end -->/ { inside = 0 }
    !inside' made.md >next.md
  mv next.md made.md
done
mv made.md "$out"
