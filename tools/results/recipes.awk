# SPDX-License-Identifier: Apache-2.0
# The KL divergence of each preset, or other plan, in 10^-3 nats, models side by side, after its bits per value of keys
# and values, or per weight; the second's less the first's with its interval, * significant after Holm; and that
# difference over pairs of several seeds: from the table.csv of `tare compare` and the pairs.csv, if any, of `tare
# compare --also`.
function short(x) { return x == "" ? "" : sprintf("%.3g", x) }
of("figure") == "kld" && of("plan") != "f32" {
  plan = of("preset") == "" ? of("plan") : of("preset")
  if (FILENAME ~ /pairs/) {
    over[plan] = sprintf("%+.2f [%+.2f, %+.2f]", 1e3 * of("mean"), 1e3 * of("low"), 1e3 * of("high"))
    next
  }
  seen("plan", plan)
  seen("model", model())
  bits[plan] = of("key_bits") == "" ? short(of("bits")) : short(of("key_bits")) ", " short(of("value_bits"))
  value[plan, model()] = measured(1e3 * of("value"), 1e3 * of("stderr"), 2)
  if (of("difference") != "")
    between[plan] = sprintf("%+.2f [%+.2f, %+.2f]%s", 1e3 * of("difference"), 1e3 * of("difference_low"), \
      1e3 * of("difference_high"), of("difference_p_holm") != "" && of("difference_p_holm") < 0.05 ? " *" : "")
}
END {
  first = order["model", 1]; second = order["model", 2]
  print "| recipe | bits | " first " | " second " | difference | over five pairs |\n|---|---|---|---|---|---|"
  for (i = 1; i <= count["plan"]; i++) {
    plan = order["plan", i]
    print "| `" plan "` | " bits[plan] " | " value[plan, first] " | " value[plan, second] " | " between[plan] \
      " | " over[plan] " |"
  }
}
