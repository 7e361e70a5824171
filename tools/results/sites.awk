# SPDX-License-Identifier: Apache-2.0
# The divergence of each plan in 10^-3 nats, models side by side, and the second's over the first's, text by text: from
# the tables of `tare sweep`. Where every plan names keys or values, the mean of their bits comes first. A list of
# values is shown as grid(...). An argument and=CACHE before a file names what its sweep had beside every plan.
of("figure") == "kld" && (of("bits") != 16 || and != "") {
  plan = of("plan") == "f32" ? and : of("plan") (and == "" ? "" : "," and)
  gsub(/grid[(][^)]*[)]/, "grid(...)", plan)
  seen("plan", plan)
  seen("model", model())
  seen("text", text())
  value[plan, model(), text()] = of("value")
  error[plan, model(), text()] = of("stderr")
  if (of("key_bits") != "") bits[plan] = (of("key_bits") + of("value_bits")) / 2
}
function shown(plan, which, on) {
  return measured(1e3 * value[plan, which, on], 1e3 * error[plan, which, on], 1)
}
END {
  first = order["model", 1]
  second = order["model", 2]
  of_keys = 1
  for (i = 1; i <= count["plan"]; i++) of_keys = of_keys && (order["plan", i] in bits)
  printf of_keys ? "| bits | plan |" : "| plan |"
  for (t = 1; t <= count["text"]; t++)
    printf " %s | %s | ratio |", (t == 1 ? first : order["text", t] ": " first), second
  print "\n|---|" (of_keys ? "---|" : "") substr("---|---|---|---|---|---|---|---|---|", 1, 12 * count["text"])
  for (i = 1; i <= count["plan"]; i++) {
    plan = order["plan", i]
    printf of_keys ? "| %.2f | `%s` |" : "|%.0s `%s` |", bits[plan], plan
    for (t = 1; t <= count["text"]; t++) {
      text_is = order["text", t]
      printf " %s | %s | %.1f |", shown(plan, first, text_is), shown(plan, second, text_is), \
        value[plan, second, text_is] / value[plan, first, text_is]
    }
    print ""
  }
}
