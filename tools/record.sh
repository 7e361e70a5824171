#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures how fast Tare is on this machine and writes one record: the processor, its limits, and every figure with its
# spread over the rounds. Rounds follow each other, each of the whole set, so that a machine whose clock drifts shows it
# in the spread. The set is what the commands below do without options: some five minutes a round on two cores.
#
# usage: tools/record.sh [OPTION...] FILE.json            measures and writes a record
#        tools/record.sh --against OLD.json FILE.json     also says what is slower than in OLD.json beyond both spreads;
#                                                         a FILE.json that exists is compared and not measured again
#   --tare PROGRAM  (build/release/tare)
#   --name WORDS    the machine, as tables name it (the processor and its cores)
#   --rounds N      (3)
#   --force         writes the record of a busy machine, too, and marks it
#   --small         the smallest sizes, one round: to try the script, not to be compared
# exit status: 0 done, 1 failed, busy, or something is slower; 2 usage error
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
tare=$root/build/release/tare name= rounds=3 force= small= against= file=

die() { echo "record: $*" >&2; exit 1; }
usage() { echo "record: $*; try: tools/record.sh --help" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '3,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --force) force=yes ;;
    --small) small=yes rounds=1 ;;
    --tare | --name | --rounds | --against)
      [ $# -gt 1 ] || usage "$1: got no value"
      declare "${1#--}=$2"; shift ;;
    -*) usage "got '$1', expected an option" ;;
    *) [ -z "$file" ] || usage "got '$1' after '$file', expected one FILE.json"; file=$1 ;;
  esac
  shift
done
[ -n "$file" ] || usage 'got no FILE.json'
[[ $rounds =~ ^[1-9][0-9]?$ ]] || usage "--rounds: got '$rounds', expected 1 to 99"
command -v jq >/dev/null || die 'got no jq; try: tools/setup.sh --bench'

# check_record FILE: says why it is none.
check_record() {
  jq -e 'select(.schema == "tare.record/1")' "$1" >/dev/null 2>&1 ||
    die "$1: got no record, expected one of tools/record.sh"
}
[ -z "$against" ] || check_record "$against"

# The share of the processors' time that others take while this script waits, in percent.
busy() {
  local before after
  read -ra before < <(sed -n 's/^cpu //p' /proc/stat)
  sleep 2
  read -ra after < <(sed -n 's/^cpu //p' /proc/stat)
  local total=0 idle i
  for i in "${!after[@]}"; do [ "$i" -ge 8 ] || total=$((total + after[i] - before[i])); done
  idle=$((after[3] + after[4] - before[3] - before[4]))
  echo $((100 * (total - idle) / (total > 0 ? total : 1)))
}

machine() {
  local flag flags=()
  for flag in avx2 f16c avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16 asimddp i8mm sve; do
    ! grep -qwm1 "$flag" /proc/cpuinfo || flags+=("$flag")
  done
  local cpu governor=/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
  cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
  jq -n --arg name "${name:-${cpu:-$(uname -m)}, $(nproc) cores}" --arg cpu "$cpu" --argjson cores "$(nproc)" \
    --arg l1 "$(getconf LEVEL1_DCACHE_SIZE)" --arg l2 "$(getconf LEVEL2_CACHE_SIZE)" \
    --arg l3 "$(getconf LEVEL3_CACHE_SIZE)" --arg governor "$(cat $governor 2>/dev/null || echo unknown)" \
    --arg system "$(uname -sr)" \
    '{$name, $cpu, $cores, $system, $governor, flags: $ARGS.positional,
      cache_bytes: ([$l1, $l2, $l3] | map(tonumber? // 0))}' --args "${flags[@]}"
}

# One round: the results of every command, one file each.
measure() {
  result() {
    "$tare" "${@:2}" --quiet --json - >"$folder/$1.json" 2>"$work/said" ||
      { cat "$work/said" >&2; die "failed: tare ${*:2}"; }
  }
  local folder=$1 model=$root/experiments/pair/novels-differential tokens=128 plan
  local attention=() decode=() linear=() forward=()
  if [ -n "$small" ]; then
    attention=(--n 256 --heads 1 --repetitions 1) decode=(--n 256 --heads 1 --repetitions 1) tokens=4
    linear=(--plan weights=int4/group64,linear_in=int8/token --rows 16 --in 256 --out 256 --repetitions 1)
    forward=(--hidden 64 --ffn 64 --heads 2 --layers 1 --tokens 16 --vocabulary 32 --repetitions 1)
  else
    decode=(--family standard,v1,v2 --heads 32)
  fi
  result prefill bench attention "${attention[@]}"
  result decode bench decode "${decode[@]}"
  result linear bench linear "${linear[@]}"
  result forward bench forward --plan int8 "${forward[@]}"
  for plan in '' weights=int8/channel,linear_in=int8/token weights=int4/channel; do
    result "tokens-${plan//\//-}" generate "$model" --prompt 'It was' --plan "$plan" --tokens "$tokens" --threads 1
  done
}

if [ -z "$against" ] || [ ! -e "$file" ]; then
  [ -x "$tare" ] || die "got no program $tare; try: cmake --build --preset release, or --tare PROGRAM"
  load=$(busy)
  [ "$load" -le 5 ] || [ -n "$force$small" ] ||
    die "busy: others take $load % of the processors, expected at most 5; try again later, or --force"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for ((round = 1; round <= rounds; ++round)); do
    echo "record: round $round of $rounds" >&2
    mkdir "$work/$round"
    measure "$work/$round"
  done
  jq -n -f "$root/tools/results/record.jq" --argjson machine "$(machine)" --argjson load "$load" \
    --arg version "$("$tare" --version)" --arg date "$(date -u +%F)" --arg small "$small" \
    "$work"/*/*.json >"$work/record.json"
  spread=$(jq '.quiet.median_spread * 100 | round' "$work/record.json")
  [ "$spread" -le 10 ] || [ -n "$force$small" ] ||
    die "busy: half of the figures differ by over $spread % between rounds, expected 10; try later, or --force"
  mv "$work/record.json" "$file"
  echo "record: wrote $file ($(jq '.figures | length' "$file") figures, median spread $spread %)" >&2
fi
check_record "$file"
[ -z "$against" ] || jq -rn -f "$root/tools/results/slower.jq" "$against" "$file"
