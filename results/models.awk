# SPDX-License-Identifier: Apache-2.0
# The second model's change from 16 bits less the first one's, with its interval, per task, granularity and bits: from
# the table of `tare compare`. * significant after Holm, ? too few items for a test.
of("difference") != "" && of("figure") ~ /^(perplexity|acc)$/ {
  row = of("figure") == "perplexity" ? "perplexity, " text() : text() ", " of("figure")
  seen("row", row)
  seen("scale", of("granularity"))
  seen("bits", of("bits"))
  few = of("difference_gained") != "" && of("difference_gained") + of("difference_lost") < 6
  mark = few ? " ?" : of("difference_p_holm") != "" && of("difference_p_holm") < 0.05 ? " *" : ""
  cell[row, of("granularity"), of("bits")] = sprintf("%+.3f [%+.3f, %+.3f]%s", of("difference"), \
    of("difference_low"), of("difference_high"), mark)
}
END {
  printf "| result | scale per |"
  for (b = 1; b <= count["bits"]; b++) printf " %s bits |", order["bits", b]
  print "\n|---|---|" substr("---|---|---|---|---|", 1, 4 * count["bits"])
  for (r = 1; r <= count["row"]; r++)
    for (s = 1; s <= count["scale"]; s++) {
      printf "| %s | %s |", s == 1 ? order["row", r] : "", order["scale", s]
      for (b = 1; b <= count["bits"]; b++) printf " %s |", cell[order["row", r], order["scale", s], order["bits", b]]
      print ""
    }
}
