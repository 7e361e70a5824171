#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What every source file has (the licence line, a newline at its end) and what none has: paths of somebody's machine, notes to oneself, tabs,
# spaces at a line's end, characters outside ASCII in code. Pages may use any character; data are not looked at.
# usage: text.sh ROOT
set -euo pipefail
cd "${1:?usage: text.sh ROOT}"
bad=0
complain() { echo "$*"; bad=1; }

mapfile -t files < <(find . \( -name '.?*' ! -name .ci -o -path ./build -o -path ./tests/data \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name CMakePresets.json -o -name '*.sh' \
     -o -name '*.py' -o -name '*.md' -o -path ./.ci/run \) -print | sort)

for file in "${files[@]}"; do
  case $file in
    *.h | *.cc) head -n 1 "$file" | grep -qx '// SPDX-License-Identifier: Apache-2.0' || complain "$file:1: expected the SPDX line" ;;
    *.sh | *.py | ./.ci/run) head -n 2 "$file" | grep -qx '# SPDX-License-Identifier: Apache-2.0' || complain "$file:1: expected the SPDX line below #!" ;;
  esac
  [ -z "$(tail -c 1 "$file")" ] || complain "$file: expected a newline at the end"
  case $file in
    *.md) ;;
    *) hits=$(LC_ALL=C grep -nP '[^\x20-\x7e]' "$file" | head -n 3) && complain "$file: tab or character outside ASCII: $hits" || true ;;
  esac
  hits=$(grep -nE ' +$' "$file" | head -n 3) && complain "$file: spaces at the end of a line: $hits" || true

  # The brackets keep this file from matching itself.
  words='/wor[k]/|/hom[e]/|[T]ODO|[F]IXME|\b[X]XX\b|[i]ssue #?[0-9]'
  [ "$file" = ./.ci/run ] || words+='|[.][.]/share[d]'
  hits=$(grep -nE "$words" "$file" | head -n 3) && complain "$file: not for this tree: $hits" || true
done
exit $bad
