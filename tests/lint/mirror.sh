#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/ mirrors the tree, both ways: tests/a/b/c_test.cc tests a/b/c.h or a/b/c.cc, and every header, or source without
# one, has its test (a/b/c-inl.h has c's; stages.cc compiles such files). A test moves with its subject. A test in a
# layer's own folder, tests/a/c_test.cc, tests the layer as a whole (parity, bad input). In tools/, the sources of
# subcommands need a test, through the program.
# usage: mirror.sh ROOT
set -euo pipefail
cd "${1:?usage: mirror.sh ROOT}"
bad=0
for layer in quant kernels experiments tools; do
  [ -d "tests/$layer" ] || continue
  while read -r test; do
    subject=${test#tests/} subject=${subject%_test.cc}
    [ -e "$subject.h" ] || [ -e "$subject.cc" ] || [ -e "$subject-inl.h" ] ||
      { echo "$test: got no $subject.h or $subject.cc to test"; bad=1; }
  done < <(find "tests/$layer" -mindepth 2 -name '*_test.cc' | sort)
done

expect_test() {
  local subject=${1%.*}
  subject=${subject%-inl}
  [ -e "tests/${subject}_test.cc" ] || { echo "$1: got no tests/${subject}_test.cc"; bad=1; }
}
while read -r file; do
  case $file in
    *.h) expect_test "$file" ;;
    */stages.cc) ;;
    *) [ -e "${file%.cc}.h" ] || expect_test "$file" ;;
  esac
done < <(find quant kernels experiments -name '*.h' -o -name '*.cc' | sort)
while read -r file; do
  ! grep -qvE '^(//.*|#.*|)$' "$file" || expect_test "$file"
done < <(find tools -maxdepth 1 -name '*.cc' | sort)
exit $bad
