# SPDX-License-Identifier: Apache-2.0
# The divergence of each format at each site in 10^-3 nats, standard / differential, formats by bits: from the table of
# `tare sweep` over plans of one format each, on the text that an argument on=TEXT names.
function shown(value) {
  value *= 1e3
  if (value >= 999.5) return 10 * sprintf("%.0f", value / 10)
  return sprintf(value < 1 ? "%.3f" : value < 10 ? "%.2f" : "%.1f", value)
}
# Bits of scales per value: one f32 for 16 values or, about, for a row of 256 to 688; E8M0 for 32; E4M3 for 16.
function scales(row) { return row ~ /, 16/ ? 2 : row ~ /, a row/ ? 0.1 : row ~ /^mx/ ? 0.25 : 0.5 }
of("figure") == "kld" && of("plan") != "f32" && text() == on {
  split(of("plan"), rules, ",")
  site = rules[1]
  format = substr(rules[1], index(rules[1], "=") + 1)
  sub(/=.*/, "", site)
  scale = index(format, "/") ? (format ~ /16/ ? ", 16" : ", a row") : ""
  sub(/\/.*/, "", format)
  seen("site", site)
  seen("model", model())
  seen("row", format scale)
  bits[format scale] = format == "ternary" ? 2 : format == "nf4" ? 4 : substr(format, match(format, /[0-9]/), 1)
  cell[format scale, site, model()] = shown(of("value"))
}
END {
  print "| bits | with scales | format | weights | linear_in | q and k | v | attn_logits |"
  print "|---|---|---|---|---|---|---|---|"
  for (b = 8; b >= 2; b -= 2)
    for (r = 1; r <= count["row"]; r++) {
      row = order["row", r]
      if (bits[row] != b) continue
      printf "| %d | %.4g | %s |", b, b + scales(row), row
      for (s = 1; s <= count["site"]; s++) {
        first = cell[row, order["site", s], order["model", 1]]
        printf " %s |", first == "" ? "" : first " / " cell[row, order["site", s], order["model", 2]]
      }
      print ""
    }
}
