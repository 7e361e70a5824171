#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Paths named in text exist: in pages and comments, every word that starts with a folder of the tree (with or without
# its ending; * stands for any name, as does a letter or a word in capitals), and in pages the targets of links, with
# headings. Sites in docs/img/sites.svg are those of quant/plan/site.h.
# usage: paths.sh ROOT
set -euo pipefail
cd "${1:?usage: paths.sh ROOT}"
bad=0
mapfile -t sources < <(find . \( -name '.?*' ! -name .ci -o -path ./build -o -path ./tests/data \) -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.py' \
     -o -name '*.awk' \) -print)
mapfile -t pages < <(find . \( -name '.?*' -o -path ./build \) -prune -o -type f -name '*.md' -print)

# Lines of "where path": every word of a page, and of the comments of a source, that begins with a folder of the tree.
named() {
  local folders='quant|kernels|experiments|tools|tests|cmake|docs'
  [ $# -eq 0 ] || awk -v path_pattern="[^A-Za-z0-9_./*-]($folders)/[A-Za-z0-9_./*-]+" '
    FILENAME ~ /\.(h|cc)$/ { if (!sub(/^.*\/\/ /, "// ")) next }
    FILENAME !~ /\.(h|cc|md)$/ { if (/# *include/ || !sub(/^(.*[ \t])?#+ /, "# ")) next }
    {
      text = " " $0
      while (match(text, path_pattern)) {
        path = substr(text, RSTART + 1, RLENGTH - 1)
        text = substr(text, RSTART + RLENGTH)
        sub(/[.-]+$/, "", path)
        if (text !~ /^[${<(]/) print FILENAME ":" FNR, path
      }
    }' "$@"
}
exists() {
  local ending
  for ending in '' .h .cc -inl.h .py; do
    ! compgen -G "${1//\*\*/*}$ending" >/dev/null || return 0
  done
  return 1
}

declare -A missing
while read -r where path; do
  if [ -z "${missing[$path]+known}" ]; then
    missing[$path]=0
    exists "$path" || [[ $path =~ [/._]([A-Z]{3,}|[a-z]/) ]] || missing[$path]=1
  fi
  [ "${missing[$path]}" = 0 ] || { echo "$where: got no $path, expected a path of this tree; has it moved?"; bad=1; }
done < <(named "${sources[@]}" "${pages[@]}")

# headings PAGE: the anchors of its headings, as GitHub makes them.
headings() { sed -n '/^```/,/^```/d; s/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'; }
while IFS=: read -r page line link; do
  target=$(dirname "$page")/${link%%#*} anchor=${link#*#}
  [ "${link%%#*}" != '' ] || target=$page
  [ -e "$target" ] || { echo "$page:$line: got a link to $link, expected a file of this tree"; bad=1; continue; }
  if [[ $link == *'#'* ]] && ! headings "$target" | grep -qx -- "$anchor"; then
    echo "$page:$line: got a link to $link, expected one of its headings"
    bad=1
  fi
done < <(awk '{ text = $0
  while (match(text, /\]\([^() ]+\)/)) {
    link = substr(text, RSTART + 2, RLENGTH - 3); text = substr(text, RSTART + RLENGTH)
    if (link !~ /^[a-z]+:/) print FILENAME ":" FNR ":" link } }' "${pages[@]}" /dev/null)

# A box of a site holds its name, perhaps below "late: " or "early: ". Both sites of a linear layer are of one row.
[ ! -e docs/img/sites.svg ] || while read -r site; do
  layer=${site%.w} layer=${layer%.in}
  grep -qsF -e "\"$site\"," -e "\"$layer\"," quant/plan/site.h ||
    { echo "docs/img/sites.svg: got $site, expected a site"; bad=1; }
done < <(awk '/class="(site|late)"/ { getline; gsub(/<[^>]*>|.*: /, ""); print }' docs/img/sites.svg)
exit $bad
