# SPDX-License-Identifier: Apache-2.0
# Divergence in 10^-3 nats of versions of a model by method, text by text: the mean over the cuts of the calibration
# text and their deviation, or the one version's standard error; from the table.csv of `tare sweep --source` over
# files METHOD-PER[-CUT].h5, in a folder MODEL-PER. A star: every cut differs significantly from the first version.
of("figure") == "kld" && of("change") != "" {
  name = of("model")
  cut_of = match(name, /-[0-9]+$/)
  if (cut_of) name = substr(name, 1, cut_of - 1)
  match(name, /-[a-z]+$/)
  method = substr(name, 1, RSTART - 1)
  split(FILENAME, folder, "/")
  split(folder[1], of_model, "-")
  seen("method", method)
  seen("column", of_model[2] ", " text() ": " of_model[1])
  key = method SUBSEP of_model[2] ", " text() ": " of_model[1]
  x = 1e3 * of("change")
  error[key] = 1e3 * of("change_stderr")
  if (of("difference_p_holm") != "" && of("difference_p_holm") < 0.05) stars[key]++
  cuts[key]++
  sum[key] += x
  squares[key] += x * x
}
END {
  head = "| `--method` |"
  rule = "|---|"
  for (c = 1; c <= count["column"]; c++) { head = head " " order["column", c] " |"; rule = rule "---|" }
  print head "\n" rule
  for (m = 1; m <= count["method"]; m++) {
    line = "| " order["method", m] " |"
    for (c = 1; c <= count["column"]; c++) {
      key = order["method", m] SUBSEP order["column", c]
      n = cuts[key]
      mean = sum[key] / n
      if (n > 1) error[key] = sqrt((squares[key] - n * mean * mean) / (n - 1))
      line = line sprintf(" %.1f +/- %.1f%s |", mean, error[key], stars[key] == n ? " *" : "")
    }
    print line
  }
}
