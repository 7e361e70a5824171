#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes statistics as a file of commands, one part of the sequences per line, for any program that runs lines on many
# machines; the last line, a comment, joins the parts into the bytes of one machine. Re-running a killed line is safe:
# it continues where it last wrote, and skips a part that is whole.
#
# usage: tools/cluster/shards.sh TARE OUT.h5 PARTS STATS... > shards.txt      STATS: the model and options of tare
# stats, except --out and --shard
#
# The ways to run the file are those of tools/cluster/cells.sh; then    sed -n 's/^# //p' shards.txt | bash
set -euo pipefail
[ $# -ge 4 ] || { sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 2; }
tare=$1 out=$2 parts=$3
shift 3
case $parts in
  '' | *[!0-9]* | 0*) echo "shards.sh: got '$parts', expected a number of parts; try 10" >&2; exit 2 ;;
esac

files=()
for ((k = 0; k < parts; k++)); do
  files+=("$out.$k")
  printf '[ -e %q ] || ' "$out.$k"
  printf '%q ' "$tare" stats "$@" --shard "$k/$parts" --out "$out.$k"
  echo '>/dev/null'
done
printf '# %s\n' "$(printf '%q ' "$tare" stats merge "${files[@]}" --out "$out")"
