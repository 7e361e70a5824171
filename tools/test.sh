#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, checks formatting, builds and tests twice: under the address and undefined-behaviour
# sanitizers the tests of every layer; as released the kernels again, on each instruction set too, the tests that cannot
# be sanitized, those of the program, the Python module and the installed package, and the checks of the tree. The last
# line is "N passed, N failed".
#
# usage: tools/test.sh [--quick | --changed | --all | --arm64]
#   --quick     the dev preset only
#   --changed   the dev preset, of the layers that a change since origin/main can touch; pages alone: the lint
#   --all       the thread sanitizer, clang-tidy, every file compiled alone, the commands of pages too (two hours more)
#   --arm64     kernels, formats and golden models, compiled for arm64 and emulated, which gets 10 minutes
#
# On Debian 13 warnings are errors, and clang-format and clang-tidy must have nothing to say. The compilers of later
# systems see more than anybody here has read: there warnings stay warnings and these two are left out.
set -euo pipefail
cd "$(dirname "$0")/.."

presets='asan release' static_checks=yes sanitized= tidy= werror=ON together=ON changes= skip='^none$' setup= limit=2h
targets='--target all'
case "${1:-}" in
  '') ;;
  --quick) presets=dev static_checks= ;;
  --changed) presets=dev static_checks= changes=yes ;;
  --all) presets='asan release tsan' tidy=yes together=OFF ;;  # clang-tidy reads how each source is compiled
  --arm64) presets=arm64 static_checks= setup=--arm64 targets= limit=10m ;;
  -h | --help) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "test: got '$1', expected nothing, --quick, --changed, --all or --arm64" >&2; exit 2 ;;
esac
(. /etc/os-release && [ "$ID ${VERSION_ID:-}" = 'debian 13' ]) || static_checks= tidy= werror=OFF

# Tests share the processors: threads that spin while they wait would take them from each other.
export OMP_WAIT_POLICY=passive
# The program syncs its files: in memory, where there is enough of it, no test waits for the disk.
if [ -w /dev/shm ] && [ "$(df -k --output=avail /dev/shm | tail -n 1)" -gt 2000000 ]; then export TMPDIR=/dev/shm; fi

passed=0 failed=0 skipped=0 failures='' skips=''
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

# skips REPORT: the name of each test that was skipped, and the first line that it printed.
skips() {
  awk '
    match($0, /<testcase name="[^"]*"/) {
      name = substr($0, RSTART + 16, RLENGTH - 17)
      idle = /status="(notrun|disabled)"/
    }
    idle && match($0, /<system-out>[^<]*/) { print name, substr($0, RSTART + 12, RLENGTH - 12); idle = 0 }' "$1"
}

# The two builds share the tests (TARE_TESTS_BESIDE). The released one comes second: it attacks both programs.
declare -A beside=()
[ "$presets" = dev ] || beside=([asan]=$PWD/build/release [release]=$PWD/build/asan)

# Configures, builds and tests one preset; one that does not build, or has no tests, counts as one failure.
run_preset() {
  local report=$PWD/build/$1/tests.xml bad idle
  rm -f "$report"
  title "$1: build"
  cmake --preset "$1" -DTARE_TESTS=ON -DTARE_WERROR=$werror -DCMAKE_UNITY_BUILD=$together \
    -DTARE_TESTS_BESIDE="${beside[$1]:-}" && cmake --build --preset "$1" $targets || { fail "$1: build"; return 0; }
  title "$1: tests"
  # One more than there are processors: some tests wait for seconds, for a pipe's writer or a lock.
  timeout "$limit" ctest --preset "$1" --no-tests=error -j $(($(nproc) + 1)) -LE "$skip" \
    --output-junit "$report" || true
  [ "$(count tests "$report" 2>/dev/null || echo 0)" -gt 0 ] || { fail "$1: got no tests"; return 0; }
  bad=$(count failures "$report") idle=$(($(count skipped "$report") + $(count disabled "$report")))
  passed=$((passed + $(passes "$report"))) failed=$((failed + bad)) skipped=$((skipped + idle))
  while read -r name says; do
    # A script must run where its packages were installed above; a test in C++ may lack hardware.
    case $static_checks$name in yescaptured.pytorch | yes[A-Z]*) ;; yes*) fail "$1: $name was skipped" ;; esac
    skips+="  $name: $says"$'\n'
  done < <(skips "$report")
  [ "$bad" -eq 0 ] || \
    failures+=$(sed -n 's/.*<testcase name="\([^"]*\)".* status="fail".*/  '"$1"': \1/p' "$report")$'\n'
}

# Sources that find's expression names, with a zero byte between.
sources() { find quant kernels experiments tools tests \( "$@" \) -print0; }
clang_format() { sources -name '*.h' -o -name '*.cc' | xargs -0 clang-format --dry-run -Werror; }
# By the compile commands of the release preset; headers are seen through the sources that include them.
clang_tidy() \
  { sources -name '*.cc' ! -path 'tests/*' | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet; }

# Files that differ from the branch that a change goes to, or on that branch from the commit before.
changed() {
  local base
  base=$(git merge-base HEAD origin/main) && [ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD~1
  git diff --name-only "$base" && git ls-files --others --exclude-standard
}

# untouched FILE...: the layers that a change of these files cannot touch; all of them if only pages differ.
untouched() {
  local file layer left='quant kernels experiments tools '
  for file; do
    [[ $file != *.md ]] || continue
    for layer in tools experiments kernels quant; do
      [[ $file != tests/$layer/* ]] || { left=${left/"$layer "/}; continue 2; }
    done
    for layer in tools experiments kernels quant; do
      left=${left/"$layer "/}
      [[ $file != $layer/* ]] || break
    done
  done
  echo $left
}

mapfile -t differ < <(changed)
if [ -n "$changes" ]; then
  read -ra idle < <(untouched "${differ[@]}") || true
  [ ${#idle[@]} -lt 4 ] || presets= static_checks=
  skip="^($(IFS='|'; echo "${idle[*]:-none}"))\$"
fi
if [ -n "$presets" ]; then
  [[ $presets != *asan* ]] || sanitized=yes
  tools/setup.sh $setup ${sanitized:+--fuzz} ${static_checks:+--lint --python --slurm --bench --browser}
else
  for lint in tests/lint/*.sh; do check "$lint" bash "$lint" .; done
fi
[ -z "$static_checks" ] || check 'clang-format' clang_format
# A hundred files take some four minutes of two cores; a change of more is for --all.
[ -z "$static_checks" ] || [ ${#differ[@]} -eq 0 ] || [ ${#differ[@]} -gt 100 ] || \
  check 'compiled alone' tools/alone.sh "${differ[@]}"
for preset in $presets; do run_preset "$preset"; done
[ -z "$tidy" ] || check 'clang-tidy' clang_tidy
[ -z "$tidy" ] || check 'all compiled alone' tools/alone.sh
[ -z "$tidy" ] || check 'commands of pages' tests/tools/documented_test.sh . --run

title 'done'
[ "$skipped" -eq 0 ] || printf '%d skipped (this machine cannot run them):\n%s' "$skipped" "$skips"
[ -z "$failures" ] || printf 'failed:\n%s' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
