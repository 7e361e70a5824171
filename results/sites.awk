# SPDX-License-Identifier: Apache-2.0
# The divergence of each plan in 10^-3 nats, models side by side, and the second's over the first's: from the table of
# `tare sweep`.
of("figure") == "kld" && of("bits") != 16 {
  seen("plan", of("plan"))
  seen("model", model())
  value[of("plan"), model()] = of("change")
  error[of("plan"), model()] = of("change_stderr")
}
END {
  first = order["model", 1]
  second = order["model", 2]
  print "| plan | " first " | " second " | ratio |\n|---|---|---|---|"
  for (p = 1; p <= count["plan"]; p++) {
    plan = order["plan", p]
    printf "| `%s` | %s | %s | %.1f |\n", plan, measured(1e3 * value[plan, first], 1e3 * error[plan, first], 1), \
      measured(1e3 * value[plan, second], 1e3 * error[plan, second], 1), value[plan, second] / value[plan, first]
  }
}
