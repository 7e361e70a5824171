#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the tables of a page of results again. Between the lines
#
#     <!-- make TABLE.awk FILE... -->
#     <!-- end -->
#
# of results/QUESTION.md stand commands, indented by four blanks, and the table that follows from them. The commands run
# in build/results/QUESTION; results/TABLE.awk turns the FILEs that they write into the new table. Tables outside such
# lines are typed: their page says where they were measured. Re-running is safe: finished cells are skipped.
#
# usage: results/make.sh QUESTION [TARE [PAGE]]
#   TARE   the program (default build/release/tare)
#   PAGE   written instead of results/QUESTION.md
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD question=${1:-}
page=$root/results/$question.md
grep -qs '^<!-- make ' "$page" || {
  echo "make: got '$question', expected one of:" $(grep -l '^<!-- make ' results/*.md | xargs basename -s .md) >&2
  exit 2
}
tare=$(realpath "${2:-build/release/tare}") out=$(realpath -m "${3:-$page}")
[ -x "$tare" ] || { echo "make: got no program $tare; try: cmake --build --preset release" >&2; exit 1; }
tare() { "$tare" "$@"; }

# part N commands, part N table: the commands of the page's Nth part; its script and files.
part() {
  awk -v n="$1" -v what="$2" '
    /^<!-- make / { inside = ++part == n; if (inside && what == "table") { gsub(/^<!-- make | -->$/, ""); print } }
    /^<!-- end -->/ { inside = 0 }
    inside && what == "commands" && sub(/^    /, "")' "$page"
}

mkdir -p "build/results/$question"
cd "build/results/$question"
[ -e experiments ] || ln -s "$root/experiments" .
cp "$page" made.md
for n in $(seq "$(grep -c '^<!-- make ' "$page")"); do
  part "$n" commands >commands.sh
  source ./commands.sh >&2
  read -r script files < <(part "$n" table)
  awk -f "$root/results/csv.awk" -f "$root/results/$script" $files >table.md
  awk -v n="$n" '
    /^<!-- make / { inside = ++part == n }
    /^<!-- end -->/ { if (inside) while ((getline line <"table.md") > 0) print line; inside = 0 }
    !(inside && /^\|/)' made.md >next.md
  mv next.md made.md
done
mv made.md "$out"
