#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles sources and headers one by one, for their errors alone: each includes what it uses, which precompiled headers
# and sources compiled as one would hide. Other files, and those that are gone, are passed over.
# usage: tools/alone.sh [FILE...]   (default: all, half an hour of two cores)
set -euo pipefail
cd "$(dirname "$0")/.."
all=()
[ $# -gt 0 ] || mapfile -t all < <(find quant kernels experiments tools tests -type f)
for file in "$@" "${all[@]}"; do
  case $file in
    tools/python/*) ;;  # needs nanobind, whose flags CMake knows
    *-inl.h) ;;         # once for each instruction set, by the source that includes it
    *.h | *.cc) [ ! -e "$file" ] || printf '%s\0' "$file" ;;
  esac
done | xargs -0 -r -n 1 -P "$(nproc)" "${CXX:-c++}" -std=c++23 -fopenmp -fsyntax-only -w -I. \
  $(pkg-config --cflags hdf5 eigen3) -DCLI11_COMPILE -DHWY_WANT_AVX3_DL \
  '-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_ZEN4|HWY_AVX3_SPR|HWY_NEON|HWY_ALL_SVE)' \
  -DTARE_{VERSION,SOURCE_DIR,BINARY_DIR,WAITING_LIBRARY}='""' -x c++
