# SPDX-License-Identifier: Apache-2.0
# The largest magnitudes and the median of all layers pooled, per site and model, and of each map alone: from
# `tare stats --csv`. A second row leaves out the first positions, where that makes a difference.
of("layer") == "" && of("head") == "" {
  seen("site", of("site"))
  seen("model", model())
  line = ""
  for (i = split("top1 top2 top3 top10 top100 median", figure, " "); i > 0; i--)
    line = sprintf(" %.4g |", of(figure[i])) line
  row = of("site") SUBSEP model() SUBSEP of("map")
  if (of("from") == 0) all[row] = line
  else if (line != all[row]) rest[row] = "\n| " of("site") " | " model() " | from " of("from") " |" line
}
END {
  print "| x | model | positions | top-1 | top-2 | top-3 | top-10 | top-100 | median |\n" \
    "|---|---|---|---|---|---|---|---|---|"
  for (s = 1; s <= count["site"]; s++) {
    for (m = 1; m <= count["model"]; m++) {
      key = order["site", s] SUBSEP order["model", m] SUBSEP
      row = "| " order["site", s] " | " order["model", m]
      print row " | all |" all[key] rest[key]
      for (map = 1; (key map) in all; map++) print row ", map " map " | all |" all[key map] rest[key map]
    }
  }
}
