# SPDX-License-Identifier: Apache-2.0
# The largest magnitudes and the median of all layers pooled, per site and model, and of each map alone: from
# `tare stats --csv`.
of("layer") == "" && of("head") == "" {
  seen("site", of("site"))
  seen("model", model())
  line = ""
  for (i = split("top1 top2 top3 top10 top100 median", figure, " "); i > 0; i--)
    line = sprintf(" %.4g |", of(figure[i])) line
  if (of("map") == "") pooled[of("site"), model()] = line
  else alone[of("site"), model()] = alone[of("site"), model()] "\n| | map " of("map") " alone |" line
}
END {
  print "| x | model | top-1 | top-2 | top-3 | top-10 | top-100 | median |\n|---|---|---|---|---|---|---|---|"
  for (s = 1; s <= count["site"]; s++) {
    for (m = 1; m <= count["model"]; m++) {
      key = order["site", s] SUBSEP order["model", m]
      print "| " order["site", s] " | " order["model", m] " |" pooled[key] alone[key]
    }
  }
}
