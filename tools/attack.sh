#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attacks the program: damaged files of every kind through every command that reads them, damaged command lines, limits
# on memory, file size and open files, a full and a read-only disk, signals and kills at random moments followed by a
# resume, two processes on one output, tokenizers by their grammar, the Python module, the cluster's scripts. Prints how
# often it tried each and what it found, and keeps the findings in build/attack. SECURITY.md says what is promised.
#
# usage: tools/attack.sh [MINUTES [SEED]]
#   MINUTES  duration (default 5), on every processor
#   SEED     seed of the damage; the moments of signals are not repeatable
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *[!0-9]*) echo "attack: got '$1', expected a number of minutes" >&2; exit 2 ;;
esac
minutes=${1:-5} seed=${2:-1}

cmake --preset release >/dev/null
cmake --build --preset release --target tare attack  # and the Python module, where it can be built
module=OFF
[ ! -d build/release/python ] || module=ON
cmake --preset asan -DTARE_PYTHON=$module >/dev/null
cmake --build --preset asan --target tare
[ $module = OFF ] || cmake --build --preset asan --target tare_python

shm=/dev/shm
[ -w $shm ] || shm=${TMPDIR:-/tmp}
work=$(mktemp -d "$shm/tare-attack-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/small" "$work/read-only"
rm -rf build/attack

# A disk of 200 kB and a read-only one, if this user may mount them.
mounts="mount -t tmpfs -o size=200k,mode=1777 small '$work/small' && mount -t tmpfs -o ro read-only '$work/read-only'"
disks=(--small "$work/small" --read-only "$work/read-only") within=(unshare --mount --propagation unchanged bash -c)
[ "$(id -u)" -eq 0 ] || within=(unshare --map-root-user --mount --propagation unchanged bash -c)
if ! "${within[@]}" "$mounts" 2>/dev/null; then
  echo "attack: cannot mount disks; running without the full and the read-only disk" >&2
  disks=() within=(bash -c) mounts=true
fi
# A sanitized module in a Python that is not: it has to find the sanitizer there already, and the C++ library that the
# sanitizer wraps. Python itself leaks.
python=()
if [ $module = ON ]; then
  python=(--python "PYTHONPATH=$PWD/build/release/python" --python python3)
  preloaded=$(clang++ -print-file-name=libclang_rt.asan-$(uname -m).so):$(g++ -print-file-name=libstdc++.so)
  for word in "LD_PRELOAD=$preloaded" "PYTHONPATH=$PWD/build/asan/python" \
    ASAN_OPTIONS=exitcode=99:detect_leaks=0:max_allocation_size_mb=4096:allocator_may_return_null=1 python3; do
    python+=(--sanitized-python "$word")
  done
fi
export TMPDIR=$work
"${within[@]}" "$mounts"' && exec "$@"' attack build/release/attack --program "$PWD/build/release/tare" \
  --sanitized "$PWD/build/asan/tare" \
  --source "$PWD" --work "$work" --found "$PWD/build/attack" --seconds $((60 * minutes)) --seed "$seed" \
  --workers "$(nproc)" "${disks[@]}" "${python[@]}"
