#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/record.sh: a record has every question, equal records agree, and what is slower beyond the spreads is named and
# fails, be less or more the better. Records of --small and of other machines are not compared. The table of machines
# has each figure beside the others. Sizes are the smallest, since no time is looked at.
# usage: record_test.sh TARE ROOT
set -euo pipefail
tare=$(realpath "$1") root=$(realpath "$2")
command -v jq >/dev/null || { echo 'record_test: skipped: got no jq'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "record_test: $*" >&2; exit 1; }
record() { "$root/tools/record.sh" "$@" >said 2>&1; }
said() { grep -qF -- "$1" said || die "got '$(cat said)', expected '$1'"; }

record --tare "$tare" --small --name here small.json || die "$(cat said)"
questions=$(jq -r '[.figures[].question] | unique | join(" ")' small.json)
[ "$questions" = 'decode forward linear prefill tokens' ] || die "got figures of $questions"
jq -e '.machine.name == "here" and .limits.u8s8_gops > 0 and ([.figures[].value] | min > 0)' small.json >/dev/null ||
  die "got $(head -c 1500 small.json)"

! record --against small.json small.json || die 'compares records of --small'
said 'got one of --small'
jq 'del(.small) | .figures |= map(.spread = 0.01)' small.json >a.json
record --against a.json a.json || die "equal records differ: $(cat said)"
said ' 0 slower, 0 faster'
for better in less more; do
  of="(.figures | map(.better) | index(\"$better\"))"
  jq --arg b "$better" ".figures[$of].value *= (if \$b == \"less\" then 1.5 else 0.5 end)" a.json >b.json
  ! record --against a.json b.json || die "what is slower passes ($better is better)"
  said ' 1 slower, 0 faster'
  record --against b.json a.json || die "what is faster fails: $(cat said)"
  said ' 0 slower, 1 faster'
  jq '.figures |= map(.spread = 1.2)' b.json >wide.json
  record --against a.json wide.json || die "a change within the spreads fails: $(cat said)"
done
jq '.machine.cores += 1 | .machine.name = "there"' a.json >other.json
! record --against a.json other.json || die 'compares two machines'
said 'got here and there, expected one machine'
! record --against said b.json || die 'compares what is no record'
said 'said: got no record'
record || [ $? -eq 2 ] || die 'runs without a file'
said 'got no FILE.json'

jq -rn --arg question tokens --arg what value -f "$root/tools/results/machines.jq" other.json a.json >table.csv
[ "$(head -n 1 table.csv)" = '"case","unit","here","there"' ] || die "got $(head -n 1 table.csv)"
[ "$(wc -l <table.csv)" -eq $((1 + $(jq '[.figures[] | select(.question == "tokens")] | length' a.json))) ] ||
  die "got $(cat table.csv)"
