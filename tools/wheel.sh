#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a wheel of the Python module and the program that carries their libraries: it installs in any venv of Python
# 3.12 or later without a compiler and without packages of the system, on Linux with a C library no older than this
# system's. Both are built in build/release, where what is built already is used: from nothing some seven minutes on two
# cores, after the demo about one.
#
# usage: tools/wheel.sh [FOLDER]     FOLDER: for the wheel (default dist)
set -euo pipefail
case "${1:-}" in
  -h | --help) sed -n '3,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) echo "wheel: got '$1', expected a folder; see --help" >&2; exit 2 ;;
esac
out=$(realpath -m "${1:-dist}")
cd "$(dirname "$0")/.."
build=${TARE_BUILD:-$PWD/build/release} # a build that has the module, for tests

if [ -z "${TARE_BUILD:-}" ]; then
  cores=$(nproc) minutes=13 # of one core, from nothing
  [ ! -x build/release/tare ] || minutes=2
  minutes=$((1 + (minutes + cores - 1) / cores))
  echo "wheel: about $minutes minutes on $cores free cores: packages 1, compiling the rest" >&2
  tools/setup.sh --python
  cmake --preset release -DTARE_PYTHON=ON --log-level=WARNING >/dev/null
  cmake --build --preset release --target tare tare_python tare_python_stubs
fi
module=$build/python/tare/_tare.abi3.so
for part in "$module" "$build/tare"; do
  [ -e "$part" ] || { echo "wheel: $part is not built; try tools/wheel.sh without TARE_BUILD" >&2; exit 1; }
done

version=$(sed -n 's/^#define TARE_VERSION_STRING "\(.*\)"$/\1/p' quant/base/version.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/tare-$version libraries=$work/tare-$version/tare.libs information=$work/tare-$version/tare-$version.dist-info
mkdir -p "$root" "$libraries" "$information/licenses" "$out"
cp -rL "$build/python/tare" "$root/tare"
rm -rf "$root/tare/__pycache__"
install -D "$build/tare" "$root/tare/bin/tare"

# Every library but those of the C library, which belong to the system, each with what its package says of its licence.
ldd "$module" "$build/tare" | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
  while read -r library; do
    cp -L "$library" "$libraries/"
    chmod u+w "$libraries/$(basename "$library")"
    patchelf --set-rpath '$ORIGIN' "$libraries/$(basename "$library")"
    package=$(dpkg-query -S "$(realpath "$library")" 2>/dev/null | head -n 1 | cut -d: -f1) || package=
    [ ! -e "/usr/share/doc/${package:-none}/copyright" ] ||
      cp -L "/usr/share/doc/$package/copyright" "$information/licenses/$package"
  done
patchelf --set-rpath '$ORIGIN/../tare.libs' "$root/tare/_tare.abi3.so"
patchelf --set-rpath '$ORIGIN/../../tare.libs' "$root/tare/bin/tare"
strip --strip-debug "$root/tare/_tare.abi3.so" "$root/tare/bin/tare"

cp LICENSE "$information/licenses/tare"
printf '[console_scripts]\ntare = tare.program:main\n' >"$information/entry_points.txt"
cat >"$information/WHEEL" <<END
Wheel-Version: 1.0
Generator: tools/wheel.sh
Root-Is-Purelib: false
Tag: cp312-abi3-linux_$(uname -m)
END
{
  printf 'Metadata-Version: 2.1\nName: tare\nVersion: %s\n' "$version"
  sed -nE 's/^description = "(.*)"/Summary: \1/p' pyproject.toml
  printf 'License: Apache-2.0\nRequires-Python: >=3.12\nRequires-Dist: numpy\n'
  printf 'Provides-Extra: tables\nRequires-Dist: pandas; extra == "tables"\n'
  printf 'Description-Content-Type: text/markdown\n\n'
  cat tools/python/README.md
} >"$information/METADATA"
python3 -m wheel pack "$root" --dest-dir "$out" >/dev/null
wheel=$out/tare-$version-cp312-abi3-linux_$(uname -m).whl
printf '%s: %s MB\nTo install it: pip install %s\n' "$wheel" "$(du -m "$wheel" | cut -f1)" "$wheel"
