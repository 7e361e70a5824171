#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# File-length ceilings: 400 lines of code, 120 of the README, 200 of another folder's. A longer file holds more than one idea.
# usage: sizes.sh ROOT
set -euo pipefail
cd "${1:?usage: sizes.sh ROOT}"
bad=0
while read -r file; do
  case $file in
    ./README.md) ceiling=120 ;;
    *.md) ceiling=200 ;;
    *) ceiling=400 ;;
  esac
  lines=$(wc -l <"$file")
  [ "$lines" -le $ceiling ] || { echo "$file: got $lines lines, expected at most $ceiling; split it by idea"; bad=1; }
done < <(find . \( -name '.?*' ! -name .ci -o -path ./build \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.py' -o -name README.md \) -print)
exit $bad
