#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/ is the tree again: tests/a/b/c_test.cc tests a/b/c.h or a/b/c.cc. A test whose subject moved away moves with it. What stands
# in a layer's own folder, tests/a/c_test.cc, tests the layer as a whole (parity, bad input).
# usage: mirror.sh ROOT
set -euo pipefail
cd "${1:?usage: mirror.sh ROOT}"
bad=0
for layer in quant kernels experiments tools; do
  [ -d "tests/$layer" ] || continue
  while read -r test; do
    subject=${test#tests/} subject=${subject%_test.cc}
    [ -e "$subject.h" ] || [ -e "$subject.cc" ] || { echo "$test: got no $subject.h or $subject.cc to test"; bad=1; }
  done < <(find "tests/$layer" -mindepth 2 -name '*_test.cc' | sort)
done
exit $bad
