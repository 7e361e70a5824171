#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Regenerates the output that the README, or another page, shows below its commands. Each `$ tare ...` of its code
# blocks runs, in their order and in one temporary folder; the lines below it are those of its output that have the
# same words around the numbers. A command that ends in a backslash continues on the next line.
#
# usage: results/readme.sh [TARE [OUT [PAGE]]]
#   TARE   the program (default build/release/tare)
#   OUT    written instead of the page; lines of `tare bench`, which belong to one machine, stay as they are
#   PAGE   the page (default README.md)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD tare=$(realpath "${1:-build/release/tare}") page=${3:-README.md} benches=${2:+kept}
out=$(realpath -m "${2:-$page}")
[ -x "$tare" ] || { echo "readme: got no program $tare; try: cmake --build --preset release" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# N.command and N.shown of the Nth command.
awk -v work="$work" '
  /^    \$ tare / { ++n; command = substr($0, 12); open = 1 }
  open {
    if (!/^    \$ tare /) command = command $0
    open = sub(/\\$/, "", command)
    if (!open) { print command >(work "/" n ".command"); shown = 1 }
    next
  }
  /^    / && shown { print substr($0, 5) >(work "/" n ".shown"); next }
  { shown = 0 }' "$page"

# found SHOWN PRINTED: the lines that are shown, as they are printed now.
found() {
  awk '
    function words(line,   all, one, i, n) {
      n = split(line, one, " ")
      for (i = 1; i <= n; i++) if (one[i] != "*") all = all " " (one[i] ~ /^[-+]?[0-9]/ ? "#" : one[i])
      return all
    }
    NR == FNR { shown[++lines] = words($0); next }
    { printed[FNR] = $0 }
    END {
      for (from = 1; from + lines - 1 <= FNR; from++) {
        for (i = 0; i < lines && words(printed[from + i]) == shown[i + 1]; i++);
        if (i < lines) continue
        for (i = 0; i < lines; i++) print printed[from + i]
        exit
      }
      exit 1
    }' "$1" "$2"
}

mkdir "$work/there"
ln -s "$root/experiments" "$work/there/"
for shown in $(ls "$work"/*.shown | sort -V); do
  command=$(cat "${shown%.shown}.command")
  if [[ $benches && $command == bench\ * ]]; then
    cp "$shown" "${shown%.shown}.made"
    continue
  fi
  (cd "$work/there" && "$tare" $command) >"$work/printed" 2>"$work/said" ||
    { echo "readme: tare $command: $(cat "$work/said")" >&2; exit 1; }
  found "$shown" "$work/printed" >"${shown%.shown}.made" || {
    echo "readme: tare $command: got other words than $page shows; write them there by hand:" >&2
    cat "$work/printed" >&2
    exit 1
  }
done

awk -v work="$work" '
  /^    \$ tare / { inside = 0; open = 1 }
  open {
    print
    open = /\\$/
    if (open) next
    made = work "/" ++n ".made"
    while ((getline line <made) > 0) print "    " line
    inside = 1
    next
  }
  /^    / && inside { next }
  { inside = 0; print }' "$page" >"$work/page.md"
cp "$work/page.md" "$out"
