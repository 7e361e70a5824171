#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build, moves it elsewhere, and builds and runs a project outside the tree that finds it with find_package(tare). So that the source
# tree cannot stand in for the installed files: the project is a copy in a new folder, the installation was moved after it was made, and neither
# its CMake files nor any file that the compiler read may lie in the sources.
# usage: test.sh SOURCE BUILD
set -euo pipefail
source=$(realpath "${1:?usage: test.sh SOURCE BUILD}") build=$(realpath "${2:?usage: test.sh SOURCE BUILD}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/made" >/dev/null
mv "$work/made" "$work/moved"
config=$(find "$work/moved" -name tare-config.cmake)
[ -n "$config" ] || die "got no tare-config.cmake in the installation"
! grep -rnF -e "$source" -e "$work/made" "$(dirname "$config")" || die "the installed CMake files name the place they were made in (above)"

cp -r "$source/tests/install" "$work/consumer"
cmake -G Ninja -S "$work/consumer" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; die "the project outside does not configure"; }
grep -qF "tare_DIR=$work/moved/" "$work/configure.log" || die "found another tare: $(grep tare_DIR "$work/configure.log")"
cmake --build "$work/build" || die "the project outside does not build"
! ninja -C "$work/build" -t deps | grep -F "$source" || die "the compiler read files of the source tree (above)"

for program in use_quant use_kernels use_experiments; do
  "$work/build/$program" || die "$program fails"
done
cp -r "$source/tools/example" "$work/example"
cmake -G Ninja -S "$work/example" -B "$work/example-build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON >/dev/null || die "the example does not configure"
cmake --build "$work/example-build" || die "the example does not build"
"$work/example-build/differential_attention" || die "the example fails"
if [ -x "$work/moved/bin/tare" ]; then "$work/moved/bin/tare" --version >/dev/null || die "the installed tare does not start"; fi
