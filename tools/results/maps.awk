# SPDX-License-Identifier: Apache-2.0
# Errors of both maps and of their difference, per plan and layer: from `tare maps --csv`.
{ row = of("plan") SUBSEP of("layer") }
of("map") != "difference" {
  maps[row] = maps[row] sprintf("%.3f, ", of("error"))
  bias[row] = bias[row] (of("map") == 1 ? "" : "; ") sprintf("%.3f, %.3f", of("exp_bias"), of("half_variance"))
  peaks[row] = peaks[row] sprintf("%.4f, ", of("peak"))
  next
}
!printed++ {
  print "| plan | layer | error: map 1, map 2, difference | in common | bias, half the variance: map 1; map 2 |" \
    " peak: map 1, map 2, difference |\n|---|---|---|---|---|---|"
}
{
  printf "| %s | %s | %s%.3f | %+.4f [%+.4f, %+.4f] | %s | %s%.4f |\n", \
    of("plan") == last ? "" : "`" of("plan") "`", of("layer"), maps[row], of("error"), \
    of("common"), of("low"), of("high"), \
    bias[row], peaks[row], of("peak")
  last = of("plan")
}
