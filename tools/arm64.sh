#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches Debian's libraries for arm64, with all that they need, into build/arm64-root, against which the preset arm64
# links and where the emulator finds them. Installs nothing: on this system they would displace its own. Does nothing if
# they are there. tools/setup.sh --arm64 calls this.
# usage: tools/arm64.sh PACKAGE...
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm64-root
[ "$(cat "$root/fetched" 2>/dev/null)" != "$*" ] || exit 0
rm -rf "$root"
mkdir -p "$root"/{apt/lists,apt/archives,usr/lib}
ln -s usr/lib "$root/lib"  # where the linker's script of the C library and the emulator look
touch "$root/apt/status"  # nothing is installed
apt() {
  LC_ALL=C apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$root/apt/status" \
    -o Dir::State::lists="$root/apt/lists" -o Dir::Cache="$root/apt" -o Debug::NoLocking=1 "$@"
}
echo 'arm64: fetching libraries: about 100 MB' >&2
apt update >&2
apt install --no-install-recommends --download-only -y libc6-dev "$@" >"$root/apt/log" 2>&1 ||
  { tail -n 20 "$root/apt/log" >&2; echo 'arm64: apt-get failed (above)' >&2; exit 1; }
for package in "$root"/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
ln -s hdf5-serial.pc "$root/usr/lib/aarch64-linux-gnu/pkgconfig/hdf5.pc"  # what installing would have done
rm -rf "$root/apt"
echo "$*" >"$root/fetched"
