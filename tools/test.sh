#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, checks formatting, builds and tests twice: under the address and undefined-behaviour
# sanitizers the tests of every layer; as released the kernels again, on each instruction set too, the tests that cannot
# be sanitized, those of the program, the Python module and the installed package, and the checks of the tree. The last
# line is "N passed, N failed".
#
# usage: tools/test.sh [--quick | --all]
#   --quick   the dev preset only
#   --all     the thread sanitizer and clang-tidy too (half an hour more on two cores)
#
# On Debian 13 warnings are errors, and clang-format and clang-tidy must have nothing to say. The compilers of later
# systems see more than anybody here has read: there warnings stay warnings and these two are left out.
set -euo pipefail
cd "$(dirname "$0")/.."

presets='asan release' static_checks=yes sanitized= tidy= werror=ON together=ON
case "${1:-}" in
  '') ;;
  --quick) presets=dev static_checks= ;;
  --all) presets='asan release tsan' tidy=yes together=OFF ;;  # clang-tidy reads how each source is compiled
  -h | --help) sed -n '3,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "test: got '$1', expected nothing, --quick or --all" >&2; exit 2 ;;
esac
(. /etc/os-release && [ "$ID ${VERSION_ID:-}" = 'debian 13' ]) || static_checks= tidy= werror=OFF

# Tests share the processors: threads that spin while they wait would take them from each other.
export OMP_WAIT_POLICY=passive
# The program syncs its files: in memory, where there is enough of it, no test waits for the disk.
if [ -w /dev/shm ] && [ "$(df -k --output=avail /dev/shm | tail -n 1)" -gt 2000000 ]; then export TMPDIR=/dev/shm; fi

passed=0 failed=0 skipped=0 failures=''
title() { printf '\n== %d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$1"; }
fail() { failed=$((failed + 1)) failures+="  $1"$'\n'; }

# check NAME COMMAND...: one test that is a command.
check() {
  title "$1"
  if "${@:2}"; then passed=$((passed + 1)); else fail "$1"; fi
}

# count ATTRIBUTE REPORT: a total of a ctest report.
count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\"\$/\1/p" "$2" | head -n 1; }

# passes REPORT: how many tests passed. A test of ctest that runs a part of a program counts for as many as it prints.
passes() {
  awk '
    /<testcase / { passed = /status="run"/; tests = 1 }
    match($0, /\[  PASSED  \] [0-9]+ test/) { split(substr($0, RSTART, RLENGTH), word, " "); tests = word[4] }
    /<\/testcase>/ { if (passed) sum += tests }
    END { print sum + 0 }' "$1"
}

# The two builds share the tests (TARE_TESTS_BESIDE). The released one comes second: it attacks both programs.
declare -A beside=()
[ "$presets" = dev ] || beside=([asan]=$PWD/build/release [release]=$PWD/build/asan)

# Configures, builds and tests one preset; one that does not build, or has no tests, counts as one failure.
run_preset() {
  local report=$PWD/build/$1/tests.xml bad idle
  rm -f "$report"
  title "$1: build"
  cmake --preset "$1" -DTARE_TESTS=ON -DTARE_TESTS_TOGETHER=ON -DTARE_WERROR=$werror -DCMAKE_UNITY_BUILD=$together \
    -DTARE_TESTS_BESIDE="${beside[$1]:-}" && cmake --build --preset "$1" --target all || { fail "$1: build"; return 0; }
  title "$1: tests"
  ctest --preset "$1" --no-tests=error -j "$(nproc)" --output-junit "$report" || true
  [ "$(count tests "$report" 2>/dev/null || echo 0)" -gt 0 ] || { fail "$1: got no tests"; return 0; }
  bad=$(count failures "$report") idle=$(($(count skipped "$report") + $(count disabled "$report")))
  passed=$((passed + $(passes "$report"))) failed=$((failed + bad)) skipped=$((skipped + idle))
  [ "$bad" -eq 0 ] || \
    failures+=$(sed -n 's/.*<testcase name="\([^"]*\)".* status="fail".*/  '"$1"': \1/p' "$report")$'\n'
}

# Sources that find's expression names, with a zero byte between.
sources() { find quant kernels experiments tools tests \( "$@" \) -print0; }
clang_format() { sources -name '*.h' -o -name '*.cc' | xargs -0 clang-format --dry-run -Werror; }
# By the compile commands of the release preset; headers are seen through the sources that include them.
clang_tidy() \
  { sources -name '*.cc' ! -path 'tests/*' | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet; }

[ "$presets" = dev ] || sanitized=yes
tools/setup.sh ${sanitized:+--fuzz} ${static_checks:+--lint --python --slurm}
[ -z "$static_checks" ] || check 'clang-format' clang_format
for preset in $presets; do run_preset "$preset"; done
[ -z "$tidy" ] || check 'clang-tidy' clang_tidy

title 'done'
[ "$skipped" -eq 0 ] || echo "$skipped skipped (this machine cannot run them)"
[ -z "$failures" ] || printf 'failed:\n%s' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
