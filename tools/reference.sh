#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes pages of every public header's comments by Doxygen: OUT/index.html.
#
# usage: tools/reference.sh PREFIX OUT       PREFIX: where cmake --install put Tare; OUT: a new folder
set -euo pipefail
case ${1:-} in -h | --help) sed -n '3,5s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -eq 2 ] || { echo "reference: got $# arguments, expected PREFIX and OUT; try --help" >&2; exit 2; }
die() { echo "reference: $*" >&2; exit 1; }
command -v doxygen >/dev/null || die 'got no doxygen; try: apt install doxygen'
[ -d "$1/include/tare" ] || die "$1: got no include/tare, expected an installation; try: cmake --install build/release"
[ ! -e "$2" ] || die "$2: exists, expected a new folder"

# Comments are plain text before what they are of, or behind it on the same line: "//" becomes what Doxygen reads, and
# nothing in them is a command or a tag.
filter=$(mktemp)
trap 'rm -f "$filter"' EXIT
cat >"$filter" <<'END'
#!/usr/bin/awk -f
function plain(text) {
  gsub(/[\\@#%]/, "\\\\&", text); gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
  return text
}
# A block that nothing follows on the next line belongs to no declaration.
function flush(belongs,   i) {
  for (i = 1; i <= lines; ++i) print belongs ? shown[i] : said[i]
  lines = 0
}
FNR == 1 && /SPDX/ { first = 1; shown[++lines] = "/// @file"; next }
match($0, /^ *\/\/ ?/) {
  said[++lines] = $0; shown[lines] = substr($0, 1, RLENGTH - 1) "/ " plain(substr($0, RLENGTH + 1)); next
}
{ flush(first || ($0 !~ /^(namespace.*)?$/)); first = 0 }
match($0, /[;,{}] +\/\/ /) { print substr($0, 1, RSTART) " ///< " plain(substr($0, RSTART + RLENGTH)); next }
{ print }
END
chmod +x "$filter"
mkdir -p "$2"
doxygen - <<END
PROJECT_NAME = Tare
PROJECT_NUMBER = $(sed -n 's/^#define TARE_VERSION_STRING "\(.*\)"/\1/p' "$1/include/tare/quant/base/version.h")
INPUT = $1/include/tare
STRIP_FROM_PATH = $1/include/tare
OUTPUT_DIRECTORY = $2
INPUT_FILTER = $filter
HTML_OUTPUT = .
RECURSIVE = YES
GENERATE_LATEX = NO
HAVE_DOT = NO
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
SHOW_NAMESPACES = NO
SORT_MEMBER_DOCS = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
END
