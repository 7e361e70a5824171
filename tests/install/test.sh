#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build, moves it elsewhere, and builds and runs a project outside the tree that finds it with
# find_package(tare). The source tree must not replace installed files unnoticed, so the project is a copy in a new
# folder, the installation is moved, and no CMake file of it and no file that the compiler read may lie in the sources.
# Then tests the kernels alone, without any other package.
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
! grep -rnF -e "$source" -e "$work/made" "$(dirname "$config")" ||
  die "the installed CMake files name the place they were made in (above)"

# configure FOLDER BUILD ARGUMENT...: a project outside, against the moved installation.
configure() {
  cmake -G Ninja -S "$work/$1" -B "$work/$2" -DCMAKE_PREFIX_PATH="$work/moved" \
    -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON "${@:3}" >"$work/configure.log" 2>&1
}
# build NAME [TARGET...]: it builds, and reads nothing that lies in the sources.
build() {
  cmake --build "$work/$1" --target "${@:2}" all || die "$1 does not build"
  reads_no_source "$1"
}
reads_no_source() {
  ! ninja -C "$work/$1" -t deps | grep -F "$source" || die "$1: the compiler read files of the source tree (above)"
}

cp -r "$source/tests/install" "$work/consumer"
cp -r "$source/docs/examples" "$work/consumer/examples"
configure consumer everything || { cat "$work/configure.log"; die "the project outside does not configure"; }
grep -qF "tare_DIR=$work/moved/" "$work/configure.log" ||
  die "found another tare: $(grep tare_DIR "$work/configure.log")"
build everything
"$work/everything/use_experiments" || die "use_experiments fails"
# run_examples FOLDER NAME...: as many as there are.
run_examples() {
  local program
  for program in "${@:2}"; do "$work/$1/$program" || die "$1/$program fails"; done
}
[ "$(find "$source/docs/examples" -name '*.cc' | wc -l)" -eq 5 ] || die "expected five examples, all of which are run"

# Every public header has its page, and Doxygen has no warning.
"$source/tools/reference.sh" "$work/moved" "$work/reference"
grep -qF 'the natural logarithm of each row' "$work/reference/structtare_1_1AttentionProblem.html" ||
  die "the reference lacks the comment of AttentionProblem::lse"

# Kernels alone, where nothing else can be found: no pkg-config module, no OpenSSL; and no header of another library or
# component is read.
mkdir "$work/no-modules"
alone=(-DCOMPONENTS=kernels -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
  -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON)
export PKG_CONFIG_LIBDIR=$work/no-modules
configure consumer kernels "${alone[@]}" || { cat "$work/configure.log"; die "kernels alone do not configure"; }
build kernels headers_alone
run_examples kernels/examples prefill decode linear gptq
foreign='/(hdf5|openssl|nlohmann|eigen3|Eigen|google/protobuf)/|/H5[A-Za-z]*\.h|sentencepiece'
foreign+='|/quant/(file|plan|observe|calibrate|statistics)/|/experiments/'
! ninja -C "$work/kernels" -t deps | grep -E "$foreign" ||
  die "kernels alone: the compiler read headers of others (above)"
ninja -C "$work/everything" -t deps | grep -E "$foreign" >/dev/null ||
  die "got no foreign header even where there are some: is the pattern right?"

# The kernels as a part of another project, which finds no other package and whose own package stays its own.
mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(TARE_COMPONENT kernels CACHE STRING "")
add_subdirectory($source tare)
add_executable(use $source/docs/examples/prefill.cc)
target_link_libraries(use PRIVATE tare::kernels)
EOF
configure parent part "${alone[@]:1:2}" ||
  { cat "$work/configure.log"; die "kernels as a subproject do not configure"; }
[ ! -e "$work/part/CPackConfig.cmake" ] || die "a subproject wrote its parent's CPackConfig.cmake"
! ninja -C "$work/part" -t targets all | grep -E 'tare_(files|experiments)' ||
  die "kernels as a subproject build more than that (above)"

# The same by pkg-config, in C++20, as a library of its own, which exports nothing of Tare's that is not a template.
mkdir -p "$work/clash/kernels/attention"
echo '#error of the project' >"$work/clash/kernels/attention/heads.h"
flags=$(PKG_CONFIG_LIBDIR=$(dirname "$(find "$work/moved" -name tare-kernels.pc)") pkg-config --cflags --libs \
  tare-kernels)
[[ "$flags" != *//* ]] || die "tare-kernels.pc: got a path with // ($flags)"
g++ -std=c++20 -fPIC -I "$work/clash" -c "$source/docs/examples/prefill.cc" $flags -o "$work/prefill.o" &&
  g++ "$work/prefill.o" $flags -o "$work/prefill" && "$work/prefill" || die "prefill fails by pkg-config ($flags)"
g++ -shared "$work/prefill.o" $flags -o "$work/plugin.so"
exported=$(nm -DC --defined-only "$work/plugin.so" | grep -E ' [TBDR] (tare::|.* tare::)' || true)
[ -z "$exported" ] || die "a plugin exports names of Tare: $exported"

# No compiler flag of ours reaches the consumer.
! ninja -C "$work/kernels" -t commands | grep -e -fopenmp ||
  die "a consumer of kernels is compiled with -fopenmp (above)"

# What is missing is named, with its package.
configure consumer files -DCOMPONENTS=files "${alone[@]:1}" && die "files configure without their libraries"
for package in libssl-dev libhdf5-dev libpcre2-dev; do
  grep -qF "$package" "$work/configure.log" ||
    { cat "$work/configure.log"; die "got no word of $package, which files need"; }
done
configure consumer unknown -DCOMPONENTS=kernel && die "got a component that there is not"
grep -qF 'got component kernel, expected' "$work/configure.log" ||
  { cat "$work/configure.log"; die "the unknown component is not named"; }

# The examples as their first lines say, but for the two folders, where everything can be found again.
unset PKG_CONFIG_LIBDIR
mkdir -p "$work/as-written/build" "$work/as-written/docs"
cp -r "$source/docs/examples" "$work/as-written/docs/examples"
ln -s "$build" "$work/as-written/build/release"
commands=$(sed -n "s|^#   ||p" "$source/docs/examples/CMakeLists.txt" |
  sed "s|/opt/tare|$work/opt|g; s|/tmp/examples|$work/examples-build|g")
[ "$(wc -l <<<"$commands")" -eq 3 ] || die "got '$commands' from docs/examples, expected three commands"
(cd "$work/as-written" && bash -e <<<"$commands") >"$work/examples.log" 2>&1 ||
  { cat "$work/examples.log"; die "the examples' commands fail"; }
reads_no_source examples-build
run_examples examples-build decode linear gptq statistics # prefill is the last command
[ ! -x "$work/moved/bin/tare" ] || "$work/moved/bin/tare" --version >/dev/null ||
  die "the installed tare does not start"
