#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs libFuzzer on every file reader, under the address and undefined-behaviour sanitizers, and reports the coverage of
# the readers' sources. Permanent cases are in tests/fuzz/corpus; new ones go to build/fuzz/corpus, and inputs that
# break a reader to build/fuzz/found.
#
# usage: tools/fuzz.sh [SECONDS [READER...]]
#   SECONDS  time per reader (default 60); as many readers run at once as there are processors
#   READER   names from tests/fuzz/readers.cc (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *[!0-9]*) echo "fuzz: got '$1', expected a number of seconds" >&2; exit 2 ;;
esac
seconds=${1:-60}
shift || true
readers=("$@")
[ ${#readers[@]} -gt 0 ] || readers=($(ls tests/fuzz/corpus))

tools/setup.sh --fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target readers_fuzz
mkdir -p build/fuzz/found
rm -f build/fuzz/*.profraw

shm=/dev/shm
[ -w $shm ] || shm=${TMPDIR:-/tmp}
export TMPDIR=$shm ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

# fuzz READER SECONDS: a line when it has ended, and the end of its log where it failed.
fuzz() {
  local log=build/fuzz/$1.log inputs
  mkdir -p "build/fuzz/corpus/$1"
  TARE_READER=$1 LLVM_PROFILE_FILE=build/fuzz/$1.profraw build/fuzz/readers_fuzz \
    -max_total_time="$2" -timeout=20 -max_len=65536 -artifact_prefix="build/fuzz/found/$1-" -print_final_stats=1 \
    "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" >"$log" 2>&1 || { tail -n 40 "$log"; return 1; }
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$1: $inputs inputs in $2 s"
}
export -f fuzz
failed=0
printf '%s\n' "${readers[@]}" | xargs -P "$(nproc)" -I{} bash -c "fuzz {} $seconds" || failed=1

llvm-profdata merge -o build/fuzz/readers.profdata build/fuzz/*.profraw
llvm-cov report build/fuzz/readers_fuzz -instr-profile=build/fuzz/readers.profdata -show-branch-summary=false \
  -show-region-summary=false \
  quant/file/{safetensors,strict_json,hdf5_reader,quantized_checkpoint,mapped_file,checkpoint_files}.cc \
  quant/file/dtype.h quant/format/listed_grid.cc quant/interchange/folders/*.cc \
  quant/interchange/gguf/{architecture,blocks,container,gguf_checkpoint,imatrix,metadata}.cc \
  quant/statistics/statistics_reader.cc \
  quant/plan/*.cc experiments/model/config/config.cc experiments/tasks/{documents,items/*}.cc \
  experiments/observe/marked_spans.cc \
  experiments/text/utf8.cc experiments/text/tokenizer/*.cc \
  experiments/arrays/{npz,array_file,image_*}.cc experiments/observe/captured/captured_layout.cc
exit $failed
