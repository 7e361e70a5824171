#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A source's private names are unique in its room, a first folder of a layer: tools/test.sh compiles the sources of a
# room as one, and a build by sources does not show a clash. Functions with different parameter types may share a name.
# Not checked: sources that tare_alone names, and those that Highway compiles for each instruction set.
# usage: private.sh ROOT
set -euo pipefail
cd "${1:?usage: private.sh ROOT}"

layers=()
for layer in quant kernels experiments tools; do [ ! -d $layer ] || layers+=($layer); done
alone=" $(find "${layers[@]}" -name CMakeLists.txt -exec sed -n '/^ *tare_alone(/,/)/p' {} + | tr '()\n' '   ') "

# Lines "file, key, meaning": the key of a type or constant is its name, of a function its name and the types it takes.
# Two aliases may share a name that mean the same.
names() {
  awk '
    FNR == 1 { own = 0 }
    /^namespace \{/ { own = 1 }
    /^\}  \/\/ namespace$/ { own = 0 }
    !own || /^$/ || /^(namespace|template|static_assert|[ }#\/])/ { next }
    /^using [A-Za-z0-9_]+ =/ { print FILENAME "\t" $2 "\t" $0; next }
    match($0, /^(struct|class|union|enum class|enum) [A-Za-z0-9_]+/) {
      split(substr($0, RSTART, RLENGTH), word, " "); print FILENAME "\t" word[length(word)] "\t" FILENAME; next
    }
    {
      line = $0
      while (line !~ /[;{}=(]$/ && (getline next_line) > 0) { sub(/^ +/, " ", next_line); line = line next_line }
      if (match(line, /[A-Za-z0-9_]+\(/) && line !~ /^[^(]*[={]/) {
        if (substr(line, RSTART - 1, 1) == ":") next  # of a class
        name = substr(line, RSTART, RLENGTH); types = substr(line, RSTART + RLENGTH)
        sub(/\) \{.*/, ")", types); sub(/\)[^)]*$/, "", types)  # a body on the same line, what follows the parameters
        gsub(/ = [^,]*/, "", types); gsub(/[ &*]*[a-z_][a-z0-9_]*(,|$)/, "&,", types)
        gsub(/ [a-z_][a-z0-9_]*,+/, ",", types); sub(/,$/, "", types)
        print FILENAME "\t" name types ")\t" FILENAME
      } else if (match(line, /k[A-Z][A-Za-z0-9]*/)) print FILENAME "\t" substr(line, RSTART, RLENGTH) "\t" FILENAME
    }' "$@"
}

bad=0
while read -r room; do
  sources=()
  while read -r source; do
    [[ $alone == *" ${source#*/} "* ]] || grep -q foreach_target.h "$source" || sources+=("$source")
  done < <(find "$room" -name '*.cc' $([ "$room" != tools ] || echo -maxdepth 1) | sort)
  [ ${#sources[@]} -gt 0 ] || continue
  names "${sources[@]}" | awk -F'\t' '
    { name = $2; function_of = sub(/\(.*/, "", name) }
    (name in kind) && kind[name] != function_of && source[name] != $1 {
      print $1 ": got " $2 ", whose name " source[name] " gives to something else; expected a name of its own"; bad = 1
    }
    { kind[name] = function_of; source[name] = $1 }
    ($2 in first) && first[$2] != $1 && what[$2] != $3 {
      print $1 ": got " $2 ", which " first[$2] " has too; expected a name of its own in the room"; bad = 1
    }
    !($2 in first) { first[$2] = $1; what[$2] = $3 }
    END { exit bad }' || bad=1
done < <(find "${layers[@]}" -mindepth 1 -maxdepth 1 -type d ! -path 'tools/*' | sort; [ ! -d tools ] || echo tools)
exit $bad
