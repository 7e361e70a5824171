# SPDX-License-Identifier: Apache-2.0
# Five points of each model's frontier, in 10^-3 nats: from the search.csv of `tare search` of the standard model, then
# of the differential one.
function thousandths(name,    value) {
  value = 1e3 * of(name)
  return sprintf(value < 99.95 ? "%.1f" : "%.0f", value)
}
of("step") == 0 { ++models }
of("measured") != "" {
  ++points[models]
  if (of("within") == 1) answer[models] = points[models]
  bits = sprintf("%.2f", of("bits"))
  shown[models, points[models]] = " | " bits " | " thousandths("predicted") " | " thousandths("measured") \
    " [" thousandths("low") ", " thousandths("high") "]"
  plain[models, points[models]] = bits
}
function row(name, first, second) { print "| " name shown[1, first] shown[2, second] " |" }
END {
  print "| point | standard: bits | predicted | measured | differential: bits | predicted | measured |"
  print "|---|---|---|---|---|---|---|"
  row("all at 4 bits", points[1], points[2])
  row("too far by one step", answer[1] + 1, answer[2] + 1)
  for (m = 1; m <= 2; m++) sub(plain[m, answer[m]], "**&**", shown[m, answer[m]])
  row("**the answer**", answer[1], answer[2])
  row("half the loss", answer[1] - 1, answer[2] - 1)
  row("nearly all at 8 bits", 1, 1)
}
