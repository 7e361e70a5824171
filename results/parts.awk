# SPDX-License-Identifier: Apache-2.0
# What each part of a plan costs alone in two models, in 10^-3 nats, and the second less the first: from attribution.csv
# of `tare compare`, then what the parts make together from that of each model.
function interval(format, value, low, high) {
  gsub("#", high - low < 3e-3 ? ".2" : ".1", format)
  return sprintf(format " [" format ", " format "]", 1e3 * value, 1e3 * low, 1e3 * high)
}
FNR == 2 { ++file }
of("figure") != "kld" { next }
file == 1 {
  star = of("p_holm") < 0.05 ? " *" : ""
  difference = interval("%+#f", of("value"), of("low"), of("high")) star
  if (of("part") == "") { whole = difference; next }
  ++parts
  name = of("part")
  if (parts <= 8) {
    alone = alone sprintf("| `%s` | %.2f | %.2f | %s |\n", name, 1e3 * of("first"), 1e3 * of("second"), difference)
    next
  }
  if (of("first") > first) { first = of("first"); first_name = name }
  if (of("second") > second) { second = of("second"); second_name = name }
  if (of("value") ^ 2 > most ^ 2) { most = of("value"); most_name = name }
  next
}
of("effect") ~ /^(plan|sum|left_over)$/ {
  total[of("effect"), file] = interval("%#f", of("value"), of("low"), of("high"))
}
END {
  print "| part alone | standard | differential | differential minus standard |\n|---|---|---|---|"
  printf "%s| %d others | %.2f (`%s`) at most | %.2f (`%s`) at most | %+.2f (`%s`) at most |\n", alone, parts - 8, \
    1e3 * first, first_name, 1e3 * second, second_name, 1e3 * most, most_name
  print "| sum of alone | " total["sum", 2] " | " total["sum", 3] " | |"
  print "| left over | " total["left_over", 2] " | " total["left_over", 3] " | |"
  print "| the whole plan | " total["plan", 2] " | " total["plan", 3] " | " whole " |"
}
