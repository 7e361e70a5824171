#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sums up the demo's figures in one sentence: how perplexity changes at the fewest bits, and how the largest magnitudes
# of the two models compare. Columns are found by name.
#
# usage: tools/seen.sh TABLE.csv OUTLIERS.csv     tables of a sweep and of `tare stats --csv`, of the same two models
set -euo pipefail
[ $# -eq 2 ] || { echo "seen: got $# files, expected TABLE.csv OUTLIERS.csv" >&2; exit 2; }

awk -F, '
  FNR == 1 { delete column; for (i = 1; i <= NF; i++) column[$i] = i; ++file; next }
  function of(name) { return $column[name] }
  file == 1 && of("figure") == "perplexity" {
    if (!(of("model") in known)) { known[of("model")]; model[++models] = of("model") }
    if (of("bits") == 16) { stored[of("model")] = of("value"); next }
    if (!(of("granularity") in scale)) { scale[of("granularity")]; granularity[++scales] = of("granularity") }
    if (fewest == 0 || of("bits") + 0 < fewest) fewest = of("bits") + 0
    value[of("model"), of("granularity"), of("bits") + 0] = of("value")
  }
  file == 2 && of("layer") == "" && of("map") == "" {
    # From position 1 on, `<s>`, one constant state, is left out.
    if (of("from") > 0) rest[of("model"), of("site")] = of("absmax")
    else largest[of("model"), of("site")] = of("absmax")
  }
  END {
    if (models != 2 || largest[model[1], "attn_logits"] == "" || rest[model[2], "layer_out"] == "") {
      print "seen: got other figures, expected perplexity, attn_logits and layer_out of two models" > "/dev/stderr"
      exit 1
    }
    printf "With %d bits for attn_logits, perplexity changes by", fewest
    for (g = 1; g <= scales; g++) {
      printf "%s", (g > 1 ? ", and by" : "")
      for (m = 1; m <= 2; m++) {
        before = stored[model[m]]
        change = 100 * (value[model[m], granularity[g], fewest] - before) / before
        printf "%s %+.1f %% (%s)", (m > 1 ? " and" : ""), change, model[m]
      }
      printf " with one scale per %s", granularity[g]
    }
    printf "; the largest magnitude of an attention logit of %s is %.2f times that of %s, " \
      "of a hidden state %.2f times, and without the first token %.2f times.",
      model[2],
      largest[model[2], "attn_logits"] / largest[model[1], "attn_logits"], model[1],
      largest[model[2], "layer_out"] / largest[model[1], "layer_out"],
      rest[model[2], "layer_out"] / rest[model[1], "layer_out"]
    print " This is one pair of small models: it is no evidence about large ones."
  }' "$1" "$2" | fold -s -w 80 | sed 's/ *$//'
