#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/results/make.sh regenerates the table of one small question, and it equals the page's: the same words, and
# numbers that differ by at most one in the last digit, as another instruction set may cause. A page with another number
# fails. Every other table has the rows of its CSV files in docs/results/data. The scripts of all tables can be read.
# tools/results/readme.sh likewise regenerates what the README and the quick start show below their commands, except
# benches.
# usage: results_page_test.sh TARE ROOT
set -euo pipefail
tare=$(realpath "$1") root=$2 scripts=$2/tools/results
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "results_page_test: $*" >&2; exit 1; }

# same PAGE PAGE: whether lines and words are the same, and numbers within one of the last digit.
same() {
  awk '
    function unit(x) { return sub(/^[^.]*\./, "", x) ? 10 ^ -length(x) : 1 }
    NR == FNR { line[FNR] = $0; lines = FNR; next }
    {
      words = split(line[FNR], one, " ")
      if (FNR > lines || words != NF) exit bad = 1
      for (i = 1; i <= NF; i++) {
        a = one[i]; b = $i
        if (a == b) continue
        if (a ~ /,$/ && b ~ /,$/) { sub(/,$/, "", a); sub(/,$/, "", b) }
        if (a !~ /^[-+]?[0-9.]+$/ || b !~ /^[-+]?[0-9.]+$/ || unit(a) != unit(b)) exit bad = 1
        if ((a - b) ^ 2 > (1.01 * unit(b)) ^ 2) exit bad = 1
      }
    }
    END { exit bad || FNR != lines }' "$1" "$2"
}

page=$root/docs/results/outliers.md
made=$work/made.md
"$scripts/make.sh" outliers "$tare" "$made" >"$work/said" 2>&1 || die "make.sh failed: $(cat "$work/said")"
same "$page" "$made" || die "got another table, expected that of $page: $(diff "$page" "$made")"
sed 's/| 31\.72 |/| 31.74 |/' "$page" >"$work/other.md"
! same "$work/other.md" "$made" || die 'a page with another number passes'
"$scripts/make.sh" weather "$tare" "$work/none.md" 2>"$work/said" && die 'made a page of no question'
grep -q "got 'weather', expected one of: .*outliers" "$work/said" || die "got '$(cat "$work/said")', expected a list"

# Every script reads together with csv.awk, whose names are its own, too.
for script in "$scripts"/*.awk; do
  [ "$script" != "$scripts/csv.awk" ] || continue
  awk -f "$scripts/csv.awk" -f "$script" /dev/null >/dev/null 2>"$work/said" || true
  ! grep -qiE 'illegal|syntax|fatal' "$work/said" || die "$script: $(head -1 "$work/said")"
done

# Every block is that of a part, and has what the part's CSV files have, without marks of code and of the answer.
unmarked() { sed 's/`//g; s/\*\*//g' "$1"; }
for parts in "$scripts"/tables/*.sh; do
  question=$(basename "$parts" .sh) page=$root/docs/results/$(basename "$parts" .sh).md
  [ -e "$page" ] || page=$root/docs/reference/$question.md
  "$scripts/make.sh" "$question" - "$made" >"$work/said" 2>&1 || die "make.sh failed: $(cat "$work/said")"
  diff <(unmarked "$page") <(unmarked "$made") >"$work/said" || die "$page: got < , expected >: $(cat "$work/said")"
  blocks=$(grep -c "^<!-- generated: tools/results/make.sh $question -->" "$page") || true
  [ "$blocks" -gt 0 ] && [ "$blocks" -le "$(grep -c '^#: [^ ]' "$parts")" ] ||
    die "$page: got $blocks blocks of tools/results/make.sh $question, expected those of $parts"
done
while IFS=: read -r page mark; do
  question=${mark##*make.sh } question=${question% -->}
  [ "$(basename "$page" .md)" = "$question" ] && [ -e "$scripts/tables/$question.sh" ] ||
    die "$page: got '$mark', expected the page's own name and tools/results/tables/$question.sh"
done < <(grep -r '^<!-- generated: .*make[.]sh' "$root/docs")

# shown PAGE COMMANDS: what the page shows below so many commands.
shown() {
  "$scripts/readme.sh" "$tare" "$work/page.md" "$1" 2>"$work/said" || die "readme.sh failed: $(cat "$work/said")"
  same "$root/$1" "$work/page.md" || die "$1: $(diff "$root/$1" "$work/page.md")"
  commands=$(grep -c '^    \$ tare ' "$work/page.md")
  [ "$commands" = "$2" ] || die "got $commands commands with their output in $1, expected $2"
}
shown README.md 1
shown docs/quickstart.md 8
