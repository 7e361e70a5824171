#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that building and testing Tare needs; does nothing if all of them are installed.
#
# usage: tools/setup.sh [--lint] [--python] [--slurm] [--fuzz] [--bench] [--browser]
#                       [--ccache] [--arm64]
#   --lint   also clang-format, clang-tidy (and an omp.h for clang) and Doxygen
#   --python also packages to build and test the Python module
#   --slurm  also Slurm and munge, to test tools/cluster/slurm.sh
#   --fuzz   also clang, for the sanitizers and libFuzzer, and the tools that measure coverage
#   --bench  also jq, for tools/record.sh
#   --browser also Chromium, to test the report as its reader sees it
#   --ccache also ccache, for whoever builds twice
#   --arm64  also a compiler and an emulator of arm64, and its libraries in build/arm64-root
#
# For Debian 13 or later and Ubuntu 25.04 or later, as root or as a user with sudo. The script checks the versions on
# offer, not the name of the system: if packages are missing or too old there, it lists them and leaves the system
# unchanged.
set -euo pipefail

# package and oldest supported version (the same as in cmake/dependencies.cmake)
packages='
g++                   4:14
cmake                 3.25
ninja-build           1.11
pkg-config            1.8
libdnnl-dev           3.7
libhwy-dev            1.2
libhdf5-dev           1.14
libssl-dev            3.0
libsentencepiece-dev  0.2
libicu-dev            72
libpcre2-dev          10.40
libzip-dev            1.7
libjpeg-dev           8c
libpng-dev            1.6
libprotobuf-dev       3.21
nlohmann-json3-dev    3.11
libcli11-dev          2.4
libeigen3-dev         3.4
libboost-dev          1.81
node-vega             5.20
node-vega-lite        5.5
libquickjs            2024.01
librsvg2-bin          2.54
libgtest-dev          1.14
libgmock-dev          1.14
libbenchmark-dev      1.8
'
lint_packages='
clang-format          1:19
clang-tidy            1:19
libomp-dev            1:19
doxygen               1.9
'
python_packages='
python3-dev           3.12
nanobind-dev          2.4
python3-numpy         1:2.0
python3-pandas        2.1
python3-h5py          3.8
python3-wheel         0.40
mypy                  1.8
patchelf              0.14
'
slurm_packages='
slurmctld             23.11
slurmd                23.11
slurm-client          23.11
munge                 0.5.15
'
fuzz_packages='
clang                 1:19
llvm                  1:19
libclang-rt-19-dev    1:19
libomp-dev            1:19
'
bench_packages='
jq                    1.6
'
browser_packages='
chromium-headless-shell 120
'
ccache_packages='
ccache                4.8
'
arm64_packages='
g++-aarch64-linux-gnu 4:14
qemu-user             1:8
'
libraries=$(awk '/^lib|^nlohmann/ { print $1 }' <<<"$packages")
last=true

for option; do
  case $option in
    --lint) packages+=$lint_packages ;;
    --python) packages+=$python_packages ;;
    --slurm) packages+=$slurm_packages ;;
    --fuzz) packages+=$fuzz_packages ;;
    --bench) packages+=$bench_packages ;;
    --browser) packages+=$browser_packages ;;
    --ccache) packages+=$ccache_packages ;;
    --arm64) packages+=$arm64_packages last="$(dirname "$0")/arm64.sh $libraries" ;;
    -h | --help) sed -n '3,18s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *)
      echo "setup: got '$option', expected --lint, --python, --slurm, --fuzz, --bench, --browser, --ccache or" \
        '--arm64' >&2
      exit 2
      ;;
  esac
done

say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }
system=$( (. /etc/os-release && echo "$PRETTY_NAME") 2>/dev/null || uname -sr)
supported='Debian 13 or later, or Ubuntu 25.04 or later'

# The needed packages, as "name (version or later)".
needed() { echo "$packages" | awk 'NF { printf "%s%s (%s or later)", sep, $1, $2; sep = ", " }'; }

need_command() {
  command -v "$1" >/dev/null || die "$system has no $1, and this script knows no other package manager. Try $supported,
  or install these Debian packages by hand: $(needed),
  and build with: cmake --preset release && cmake --build --preset release"
}

need_command dpkg-query

installed=$(dpkg-query -W -f='${Package} ${db:Status-Status} ${Version}\n' 2>/dev/null |
  awk '$2 == "installed" { print $1, $3 }')

# Packages that are missing or too old.
missing=()
while read -r name oldest; do
  [ -n "$name" ] || continue
  version=$(echo "$installed" | awk -v name="$name" '$1 == name { print $2; exit }')
  [ -n "$version" ] && dpkg --compare-versions "$version" ge "$oldest" || missing+=("$name")
done <<<"$packages"
[ ${#missing[@]} -gt 0 ] || exec $last
need_command apt-get

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "packages are missing, and you are not root and have no sudo. Ask root to run:
  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qy -o DPkg::Lock::Timeout=300 "$@"; }
fail_with_log() { tail -n 20 "$log" >&2; die "$@"; }

say "missing: ${missing[*]}"
say "this takes about 2 minutes, longer on a slow network"
say "reading the package lists"
stale=  # a failing source does no harm if the needed packages are available
apt -o APT::Update::Error-Mode=any update >"$log" 2>&1 || stale=yes

too_old=()
while read -r name oldest; do
  case " ${missing[*]} " in *" $name "*) ;; *) continue ;; esac
  # Treats an unknown name, even "g++", as a regular expression.
  offered=$(LC_ALL=C apt-cache policy "$name" |
    awk -v heading="$name:" '/^[^ ]/ { own = $0 == heading } own && $1 == "Candidate:" && $2 != "(none)" { print $2 }')
  [ -n "$offered" ] && dpkg --compare-versions "$offered" ge "$oldest" ||
    too_old+=("  $name: got ${offered:-no such package}, expected $oldest or later")
done <<<"$packages"
if [ ${#too_old[@]} -gt 0 ]; then
  [ -z "$stale" ] ||
    fail_with_log "apt-get update failed (above). Is the network up, and are the sources in /etc/apt correct?"
  die "$system does not offer the packages that Tare needs:
$(printf '%s\n' "${too_old[@]}")
  Try $supported (a container or a debootstrap root is enough). Nothing was installed."
fi

# Shows the output of apt-get as one line every 50 steps, so that a log shows progress and stays short. (Not awk: mawk
# reads large blocks, and would show everything at the end.)
show_steps() {
  local line steps=0 total=0
  while IFS= read -r line; do
    case $line in
      *' newly installed'*) total=${line%% newly*} total=${total##* } &&
        say "downloading and installing $total packages" ;;
      'Unpacking '* | 'Setting up '*) steps=$((steps + 1)) && [ $((steps % 50)) -ne 0 ] ||
        say "$steps of $((2 * total)) steps" ;;
    esac
  done
}
apt install --no-install-recommends "${missing[@]}" 2>&1 | tee "$log" | show_steps ||
  fail_with_log "apt-get install failed (above)"
say "installed: ${missing[*]}"
exec $last
