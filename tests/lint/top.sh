#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The top folder holds what is named here, and what .gitignore names; all else has a place in a folder.
# usage: top.sh ROOT
set -euo pipefail
cd "${1:?usage: top.sh ROOT}"
shopt -s dotglob
bad=0
known='.ci .clang-format .clang-tidy .git .gitignore CHANGELOG.md CMakeLists.txt CMakePresets.json CONTRIBUTING.md
  LICENSE README.md SECURITY.md cmake docs experiments kernels pyproject.toml quant tests tools'
ignored=$([ ! -e .gitignore ] || sed 's|^/||; s|/$||' .gitignore)
for entry in *; do
  place=
  for name in $known $ignored; do
    # shellcheck disable=SC2053  # a pattern
    [[ $entry != $name ]] || place=known
  done
  [ -n "$place" ] || { echo "$entry: got an unknown entry at the top; move it, or name it in top.sh"; bad=1; }
done
exit $bad
