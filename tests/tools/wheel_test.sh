#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel of the Python module: unpacked elsewhere it finds each of its libraries in itself, and computes.
# usage: wheel_test.sh ROOT BUILD
set -euo pipefail
root=${1:?usage: wheel_test.sh ROOT BUILD} build=${2:?usage: wheel_test.sh ROOT BUILD}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "wheel_test: $*" >&2; exit 1; }
python3 -c 'import numpy, wheel' && command -v patchelf >/dev/null || exit 77

TARE_BUILD=$build "$root/tools/wheel.sh" "$work/dist"
python3 -m zipfile -e "$work"/dist/tare-*.whl "$work/there"
chmod +x "$work/there/tare/bin/tare" # as pip does
foreign=$(ldd "$work/there/tare/_tare.abi3.so" "$work/there/tare/bin/tare" | awk '$2 == "=>" { print $3 }' |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | grep -vF "$work/there/" || true)
[ -z "$foreign" ] || die "the module or the program takes these from the system: $foreign"
for file in RECORD METADATA WHEEL licenses/tare; do
  [ -s "$work"/there/tare-*.dist-info/$file ] || die "the wheel has no $file"
done
cd "$work"
PYTHONPATH=$work/there python3 -c '
import numpy as np, tare
x = np.ones((3, 1, 8), np.float32)
out = tare.attention(x, x, x, plan="q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel")
assert tare.run("plan", "int8")["schema"].startswith("tare.plan")
assert tare.__file__.startswith("'"$work"'") and np.allclose(out, 1, atol=0.01), out'
