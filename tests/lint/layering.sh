#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dependencies go one way: quant <- kernels <- experiments <- tools, and inside a layer from each folder to those before
# it in the list below. The link graph ensures this for symbols of layers; this script checks includes, outside
# libraries that belong to another layer, and what no library may do (print, exit, read the environment).
# usage: layering.sh ROOT
set -euo pipefail
cd "${1:?usage: layering.sh ROOT}"
bad=0

# refuse LAYER PATTERN WHY: no line of the layer's sources, comments stripped, may match the extended regular
# expression.
refuse() {
  local hits
  hits=$(find "$1" -name '*.h' -o -name '*.cc' | sort | xargs -r awk -v pattern="$2" -v why="$3" '
    { line = $0; sub(/\/\/.*/, "", line); if (line ~ pattern) printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0 }')
  [ -z "$hits" ] || { echo "$hits"; bad=1; }
}

include='^[ \t]*#[ \t]*include[ \t]*[<"]'
for layer in quant kernels experiments tools; do
  [ -d "$layer" ] || continue
  case $layer in
    quant) above='kernels|experiments|tools' foreign='oneapi|dnnl|hwy|sentencepiece|CLI' ;;
    kernels) above='experiments|tools' foreign='nlohmann|hdf5|H5|openssl|sentencepiece|CLI' ;;
    experiments) above='tools' foreign='CLI' ;;
    tools) above='tests' foreign='oneapi|dnnl|hwy' ;;
  esac
  refuse $layer "$include($above)/" "$layer/ is below that layer and may not include it"
  refuse $layer "$include($foreign)" "that library belongs to another layer than $layer/"
  refuse $layer '^[ \t]*#[ \t]*include[ \t]*"([^"\/]*|\.[^"]*)"' "includes name the path from the root"
  [ $layer = tools ] ||
    refuse $layer \
    '(^|[^A-Za-z0-9_:.>]|std::|::)(printf|puts|putchar|perror|exit|quick_exit|getenv|secure_getenv|setenv)[ ]*\('\
'|std::(cout|cerr|clog)' \
      "a library never prints, exits or reads the environment"
done

# order LAYER FOLDER...: the folders of a layer, lowest first. A file includes its own folder and those before it.
order() {
  local layer=$1 hits
  shift
  [ -d "$layer" ] || return 0
  hits=$(find "$layer" -name '*.h' -o -name '*.cc' | sort | xargs -r awk -v layer="$layer" -v folders="$*" '
    function folder(path) { sub("^" layer "/", "", path); return sub(/\/[^\/]*$/, "", path) ? path : "." }
    BEGIN { place["."] = 0; for (i = split(folders, name, " "); i > 0; --i) place[name[i]] = i }
    FNR == 1 {
      mine = folder(FILENAME)
      if (!(mine in place)) print FILENAME ": got the folder " mine ", expected one of: " folders \
        "; give it a place in layering.sh"
    }
    $0 ~ "^[ \t]*#[ \t]*include[ \t]*[<\"]" layer "/" {
      path = $0; sub(/^[^<"]*[<"]/, "", path); sub(/[>"].*/, "", path)
      above = folder(path)
      if (mine in place && (!(above in place) || place[above] > place[mine]))
        printf "%s:%d: %s/%s is below %s and may not include it\n", FILENAME, FNR, layer, mine, above
    }')
  [ -z "$hits" ] || { echo "$hits"; bad=1; }
}

order quant base format algorithms file interchange/gguf interchange/folders checkpoint plan observe calibrate \
  statistics
order kernels elementwise product scan linear attention attention/float attention/integer cache decode
order experiments arrays text text/tokenizer text/chat table significance plan plan/simulated model/config \
  model/attention model/linear model model/families passes bench tasks/items tasks tasks/made \
  quantize/calibration quantize quantize/steps \
  export export/compressed_tensors export/gguf observe observe/captured \
  studies/sweep studies/attribution studies/compare studies/search \
  report/drawing report/figures report/page report
exit $bad
