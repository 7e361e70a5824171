# SPDX-License-Identifier: Apache-2.0
# The second model's change from 16 bits less the first one's in each pair, and over the pairs its mean, deviation and
# interval: from pairs.csv of `tare compare --also`, whose first pair is the last seed. Then, from the outliers.csv of
# each pair, largest magnitudes of the second model over the first's.
FILENAME ~ /pairs/ && of("figure") ~ /^(perplexity|kld)$/ && of("plan") !~ /^f32/ {
  row = (of("figure") == "kld" ? "KL divergence * 1000, " : "perplexity, ") text() " | `" substr(of("plan"), 13) "`"
  seen("row", row)
  scale = of("figure") == "kld" ? 1000 : 1
  pairs = split(of("differences"), d, " ")
  line = ""
  for (i = 2; i <= pairs; i++) line = line sprintf(" %+.3f |", scale * d[i])
  line = line sprintf(" %+.3f |", scale * d[1])
  cell[row] = line sprintf(" %+.3f | %.3f | [%+.3f, %+.3f] |", scale * of("mean"), scale * of("deviation"), \
    scale * of("low"), scale * of("high"))
}
FILENAME ~ /outliers/ && of("layer") == "" && of("head") == "" && of("map") == "" {
  pair = substr(of("model"), index(of("model"), "-") + 1)
  site = of("site") (of("from") == 0 ? "" : " without `<s>`")
  if (of("site") == "attn_logits" && of("from") > 0) next
  seen("site", site)
  seen("pair", pair)
  largest[site, pair, of("model") ~ /^differential/] = of("top1")
}
END {
  head = "| differential minus standard | plan |"
  rule = "|---|---|"
  for (at = 1; at <= pairs; at++) { head = head " seed " at " |"; rule = rule "---|" }
  print head " mean | deviation | 95 % of the mean |\n" rule "---|---|---|"
  for (r = 1; r <= count["row"]; r++) print "| " order["row", r] " |" cell[order["row", r]]
  for (s = 1; s <= count["site"]; s++) {
    site = order["site", s]; sum = squares = 0; line = ""
    for (at = 1; at <= count["pair"]; at++) {
      ratio = largest[site, order["pair", at], 1] / largest[site, order["pair", at], 0]
      sum += ratio; squares += ratio * ratio; line = line sprintf(" %.2f |", ratio)
    }
    n = count["pair"]
    deviation = sqrt((squares - sum * sum / n) / (n - 1))
    # 97.5 % points of Student's t with n - 1 degrees of freedom
    split("12.706 4.303 3.182 2.776 2.571 2.447", t, " ")
    half = t[n - 1] * deviation / sqrt(n)
    printf "| largest %s, ratio | unquantized |%s %.2f | %.2f | [%.2f, %.2f] |\n", site, line, sum / n, deviation, \
      sum / n - half, sum / n + half
  }
}
