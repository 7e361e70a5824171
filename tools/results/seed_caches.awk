# SPDX-License-Identifier: Apache-2.0
# Divergence of four-bit keys over that of four-bit values, by model and pair, with mean, deviation and 95 % of the mean
# over pairs: from the table.csv of a comparison of each pair.
of("figure") == "kld" && of("plan") != "f32" {
  pair = substr(of("model"), index(of("model"), "-") + 1)
  kind = substr(of("model"), 1, index(of("model"), "-") - 1)
  seen("pair", pair)
  seen("kind", kind)
  kld[kind, pair, of("plan")] = of("value")
}
END {
  split("12.706 4.303 3.182 2.776 2.571 2.447", t, " ")  # 97.5 % points of Student's t
  n = count["pair"]
  head = "| int4 keys over int4 values | "; rule = "|---|"
  for (at = 1; at <= n; at++) { head = head "seed " order["pair", at] " | "; rule = rule "---|" }
  print head "mean | deviation | 95 % of the mean |\n" rule "---|---|---|"
  for (k = 1; k <= count["kind"]; k++) {
    sum = squares = 0; line = ""
    for (at = 1; at <= n; at++) {
      ratio = kld[order["kind", k], order["pair", at], "cache_k=int4/token"] / \
        kld[order["kind", k], order["pair", at], "cache_v=int4/token"]
      sum += ratio; squares += ratio * ratio; line = line sprintf(" %.2f |", ratio)
    }
    deviation = sqrt((squares - sum * sum / n) / (n - 1)); half = t[n - 1] * deviation / sqrt(n)
    printf "| %s |%s %.2f | %.2f | [%.2f, %.2f] |\n", order["kind", k], line, sum / n, deviation, sum / n - half, \
      sum / n + half
  }
}
