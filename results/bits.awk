# SPDX-License-Identifier: Apache-2.0
# A figure of each task at 16 bits and, with its change, at fewer: per granularity and model, from the
# table of `tare sweep`.
of("figure") ~ /^(perplexity|acc|acc_norm)$/ {
  task = of("task")
  sub(/^[a-z_]*:/, "", task)
  if (of("figure") == (task == "continuations" ? "acc" : "acc_norm")) next
  digits = of("figure") == "perplexity" ? 3 : 2
  row = of("figure") == "perplexity" ? "perplexity" : task ", " of("figure")
  seen("row", row)
  seen("model", model())
  if (of("bits") == 16) {
    stored[row, model()] = sprintf("%.*f", digits, of("value")) (digits == 2 ? sprintf(" +/- %.2f", of("stderr")) : "")
    next
  }
  seen("scale", of("granularity"))
  seen("bits", of("bits"))
  cell[row, of("granularity"), model(), of("bits")] = sprintf("%.*f (%+.*f +/- %.*f)", \
    digits, of("value"), digits, of("change"), digits, of("change_stderr"))
}
END {
  printf "| result | scale per | model | unquantized |"
  for (b = 1; b <= count["bits"]; b++) printf " %s bits |", order["bits", b]
  print "\n|---|---|---|---|" substr("---|---|---|---|---|", 1, 4 * count["bits"])
  for (r = 1; r <= count["row"]; r++)
    for (s = 1; s <= count["scale"]; s++)
      for (m = 1; m <= count["model"]; m++) {
        row = order["row", r]
        scale = order["scale", s]
        name = order["model", m]
        printf "|%s| %s | %s | %s |", s == 1 && m == 1 ? " " row " " : " ", scale, name, stored[row, name]
        for (b = 1; b <= count["bits"]; b++) printf " %s |", cell[row, scale, name, order["bits", b]]
        print ""
      }
}
