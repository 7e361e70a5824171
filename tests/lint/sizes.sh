#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Limits on length: 400 lines of code, 120 of the README, 200 of another folder's; a longer file holds more than one
# idea. And on width: 120 columns of code (except in makers of test data) and of prose in pages, whose tables and code
# blocks may be wider.
# usage: sizes.sh ROOT
set -euo pipefail
cd "${1:?usage: sizes.sh ROOT}"
bad=0
mapfile -t sources < <(find . \( -name '.?*' ! -name .ci -o -path ./build \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.py' \
     -o -name '*.awk' \) -print)
mapfile -t pages < <(find . \( -name '.?*' -o -path ./build \) -prune -o -type f -name '*.md' -print)

# Code in a page is fenced, or begins with four blanks below an empty line.
said=$(awk '
  function ended(file) {
    ceiling = file == "./README.md" ? 120 : file ~ /\/README\.md$/ ? 200 : file ~ /\.md$/ ? 1e9 : 400
    if (lines > ceiling) printf "%s: got %d lines, expected at most %d; split it by idea\n", file, lines, ceiling
  }
  FNR == 1 { if (NR > 1) ended(last); fenced = code = 0; blank = 1 }
  { last = FILENAME; lines = FNR }
  FILENAME ~ /\.md$/ {
    if (/^ *```/) fenced = !fenced
    code = /^    / && (blank || code)
    blank = !NF
    if (fenced || code || /^ *\|/) next
  }
  length > 120 && FILENAME !~ /^\.\/tests\/data\/.*\.py$/ && !/^<!-- make / {
    printf "%s:%d: got %d columns, expected at most 120; break the line\n", FILENAME, FNR, length
  }
  END { ended(last) }' "${sources[@]}" "${pages[@]}")
[ -z "$said" ] || { echo "$said"; bad=1; }
exit $bad
