#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Limits on code: 400 lines, since a longer file holds more than one idea, and 120 columns (except in makers of test
# data). prose.sh has those of pages.
# usage: sizes.sh ROOT
set -euo pipefail
cd "${1:?usage: sizes.sh ROOT}"
bad=0
mapfile -t sources < <(find . \( -name '.?*' ! -name .ci -o -path ./build \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.py' \
     -o -name '*.awk' \) -print)

said=$(awk '
  function ended(file) {
    if (lines > 400) printf "%s: got %d lines, expected at most 400; split it by idea\n", file, lines
  }
  FNR == 1 { if (NR > 1) ended(last) }
  { last = FILENAME; lines = FNR }
  length > 120 && FILENAME !~ /^\.\/tests\/data\/.*\.py$/ {
    printf "%s:%d: got %d columns, expected at most 120; break the line\n", FILENAME, FNR, length
  }
  END { ended(last) }' "${sources[@]}")
[ -z "$said" ] || { echo "$said"; bad=1; }
exit $bad
