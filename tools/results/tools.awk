# SPDX-License-Identifier: Apache-2.0
# Versions of a model beside it: bits per weight, and changes from the source: from sizes.csv (model,bits) and the
# table.csv of `tare sweep --source`. A star: significantly other than the first version, after Holm.
FILENAME ~ /sizes/ { bits[of("model")] = of("bits_per_weight"); next }
of("change") != "" && of("figure") ~ /^(perplexity|kld|acc)$/ {
  seen("model", of("model"))
  figure = of("figure") " " (of("figure") == "acc" ? "" : text())
  seen("figures", figure)
  scale = of("figure") == "kld" ? 1000 : 1
  star = of("difference_p_holm") != "" && of("difference_p_holm") < 0.05 ? " *" : ""
  format = of("figure") == "kld" ? "%.2f +/- %.2f" : "%+.3f +/- %.3f"
  cell[of("model"), figure] = sprintf(format, scale * of("change"), scale * of("change_stderr")) star
}
END {
  head = "| version | bits |"; rule = "|---|---|"
  for (c = 1; c <= count["figures"]; c++) { head = head " " order["figures", c] " |"; rule = rule "---|" }
  print head "\n" rule
  for (m = 1; m <= count["model"]; m++) {
    line = "| `" order["model", m] "` | " bits[order["model", m]] " |"
    for (c = 1; c <= count["figures"]; c++) line = line " " cell[order["model", m], order["figures", c]] " |"
    print line
  }
}
