#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Commands that pages print to set up, build and test, in a tree without builds: cmake configures every preset they
# name, knows every target, and lists the tests; scripts know the options. With --run each command runs as printed, but
# tools/test.sh, which calls this.
# usage: documented_test.sh ROOT [--run]
set -euo pipefail
root=$(cd "${1:?usage: documented_test.sh ROOT [--run]}" && pwd) run=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for entry in "$root"/* "$root"/.git; do
  [ ! -e "$entry" ] || [[ $entry == */build ]] || ln -s "$entry" "$work/"
done
cd "$work"

# One command a line: lines of code in pages, joined where they end in &&, cut at &&, without their comments.
commands() {
  sed -n 's/^    //p' README.md CONTRIBUTING.md $(find -L docs -name '*.md') | sed 's/  *#.*//' |
    sed -e ':join' -e '/&&$/{N;s/&&\n */\&\& /;b join' -e '}' | sed 's/^(\(.*\))$/\1/; s/ && /\n/g' |
    grep -E '^(tools/(setup|demo|test|wheel|attack|fuzz)\.sh|cmake --(preset|build)|c(test|pack))( |$)' |
    awk '!seen[$0]++'
}

# knows SCRIPT OPTION...: whether its first comment names the options.
knows() {
  local option
  for option in "${@:2}"; do
    [[ $option != --* ]] || sed -n '/^#/!q; p' "$1" | grep -q -- "$option" ||
      { echo "got option $option, expected one that $1 describes"; return 1; }
  done
}

# after OPTION COMMAND: its value.
after() { sed -n "s/.*$1 \([^ ]*\).*/\1/p" <<<"$2" | grep .; }

# Whether what a command's own setup line installs is missing: that is for other tests to say.
lacks_packages() {
  case $1 in
    *asan*) ! command -v clang++ ;;
    cpack) ! command -v dpkg-shlibdeps || ! command -v file ;;
    *PYTHON* | *tare_python_stubs) ! python3 -c 'import nanobind' ;;
    *) false ;;
  esac
}

try() {
  case "$run $1" in
    *tools/*.sh*) read -ra words <<<"$1"; [ -x "${words[0]}" ] && knows "${words[@]}" || return 1 ;;&
    '--run tools/test.sh'*) ;;
    '--run cpack') (cd build/release && cpack) ;;
    *cpack) [ -e build/release/CPackConfig.cmake ] ;;
    --run*) eval "$1" ;;
    *'cmake --preset'*) eval "$1" ;;
    *'cmake --build'*) ninja -C "build/$(after --preset "$1")" -t query "$(after --target "$1" || echo all)" ;;
    *ctest*) [ -d "build/$(after --preset "$1")" ] && eval "$1 -N" ;;
  esac
}

# Builds need what configures first, whatever page it is on.
mapfile -t all < <(commands | sort -t' ' -k1,1 -k2,2r)
[ ${#all[@]} -ge 10 ] || { echo "got ${#all[@]} commands in pages, expected ten or more"; exit 1; }
bad=0
for command in "${all[@]}"; do
  ! lacks_packages "$command" &>log || continue
  try "$command" &>log || { echo "$command: failed"; tail -n 20 log; bad=1; }
done
exit $bad
