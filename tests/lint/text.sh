#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What every source file has (the licence line, a newline at its end) and what none has: paths of a personal machine,
# notes to oneself, tabs, spaces at a line's end, characters outside ASCII in code. Pages may use any character; data
# are not checked.
# usage: text.sh ROOT
set -euo pipefail
cd "${1:?usage: text.sh ROOT}"
bad=0

mapfile -t files < <(find . \( -name '.?*' ! -name .ci -o -path ./build -o -path ./tests/data \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name CMakePresets.json \
  -o -name '*.sh' \
     -o -name '*.py' -o -name '*.md' -o -path ./.ci/run \) -print | sort)

# complain TEXT COMMAND...: each line that the command prints is a complaint; grep's status 1 says only that there is
# none.
complain() {
  local hits
  hits=$("${@:2}") || [ $? -eq 1 ]
  [ -z "$hits" ] || { sed "s|\$|: $1|" <<<"$hits"; bad=1; }
}
# first_lines LINE HOW_MANY FILE...: files that do not have this line among their first ones.
first_lines() {
  [ $# -eq 2 ] || awk -v line="$1" -v n="$2" '
    FNR <= n && $0 == line { has[FILENAME] }
    END { for (i = 1; i < ARGC; ++i) if (!(ARGV[i] in has)) print ARGV[i] }' "${@:3}"
}

sources=() scripts=() code=() others=()
for file in "${files[@]}"; do
  case $file in
    *.h | *.cc) sources+=("$file") ;;
    *.sh | *.py | ./.ci/run) scripts+=("$file") ;;
  esac
  [[ $file == *.md ]] || code+=("$file")
  [ "$file" = ./.ci/run ] || others+=("$file")
done
license='SPDX-License-Identifier: Apache-2.0'
complain 'expected the SPDX line first' first_lines "// $license" 1 "${sources[@]}"
complain 'expected the SPDX line below #!' first_lines "# $license" 2 "${scripts[@]}"
complain 'expected a newline at the end' grep -LzP '\n\z' "${files[@]}"
LC_ALL=C complain 'tab or character outside ASCII' grep -nHP '[^\x20-\x7e]' "${code[@]}" /dev/null
complain 'spaces at the end of a line' grep -nHE ' +$' "${files[@]}"

# The brackets keep this file from matching itself.
complain 'not for this tree' grep -nHE '/wor[k]/|/hom[e]/|[T]ODO|[F]IXME|\b[X]XX\b|[i]ssue #?[0-9]' "${files[@]}"
complain 'not for this tree' grep -nHE '[.][.]/share[d]' "${others[@]}"
exit $bad
