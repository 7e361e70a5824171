# SPDX-License-Identifier: Apache-2.0
# Versions KIND_WIDTH_METHOD_CUT of two models: divergence from the source, 10^-3 nats a token, by method and width, on
# the text that no cut and no training saw; with the mean and deviation over cuts, where a method has cuts. Then what a
# method takes off another's divergence, paired by cut, on both texts, with Student's interval over the five cuts. From
# the table.csv of `tare sweep --source` of each model, as stored and executed.
of("figure") == "kld" && of("change") != "" {
  split(of("model"), part, "_")
  method = part[3] (of("executed") == 1 ? ", inputs in 8 bits, executed" : "")
  seen("kind", part[1])
  seen("text", text())
  key = part[1] SUBSEP part[2] SUBSEP method SUBSEP text()
  loss[key, ++cuts[key]] = 1000 * of("value")
}
function mean(key,    i, sum) {
  for (i = 1; i <= cuts[key]; i++) sum += loss[key, i]
  return sum / cuts[key]
}
function deviation(key,    i, m, sum) {
  m = mean(key)
  for (i = 1; i <= cuts[key]; i++) sum += (loss[key, i] - m) ^ 2
  return sqrt(sum / (cuts[key] - 1))
}
function shown(key) {
  return cuts[key] == 1 ? sprintf("%.2f", mean(key)) : sprintf("%.2f +/- %.2f", mean(key), deviation(key))
}
# What the second takes off the first, with its interval; a method without cuts is the same in each.
function taken(a, b,    i, difference, m, sum, half) {
  for (i = 1; i <= 5; i++) { difference[i] = loss[a, cuts[a] == 1 ? 1 : i] - loss[b, i]; m += difference[i] / 5 }
  for (i = 1; i <= 5; i++) sum += (difference[i] - m) ^ 2
  half = 2.776 * sqrt(sum / 4 / 5)  # the 97.5 % point of Student's t with 4 degrees
  return sprintf("%.2f [%.2f, %.2f]", m, m - half, m + half)
}
END {
  split("int8 int6 int4 int4-groups", width, " ")
  for (w = 1; w <= 4; w++) seen("width", width[w])
  methods = split("rtn hadamard+rtn gptq gptaq gptaq+quantease rtn smoothquant+rtn gptaq+quantease", listed, " ")
  for (m = 1; m <= methods; m++) seen("method", listed[m] (m > 5 ? ", inputs in 8 bits, executed" : ""))
  rule = "|---|"
  for (w = 1; w <= count["width"]; w++) { head = head " " order["width", w] " |"; rule = rule "---|" }
  for (k = 1; k <= count["kind"]; k++) {
    print (k > 1 ? "\n" : "") "| " order["kind", k] ", `--method` |" head "\n" rule
    for (m = 1; m <= count["method"]; m++) {
      line = "| " order["method", m] " |"
      for (w = 1; w <= count["width"]; w++) {
        key = order["kind", k] SUBSEP order["width", w] SUBSEP order["method", m] SUBSEP "nowhere"
        line = line (key in cuts ? " " shown(key) " |" : " |")
      }
      print line
    }
  }
  steps = split("rtn>gptq gptq>gptaq gptaq>gptaq+quantease", step, " ")
  print "\n| reduction | width | text | standard | differential |\n|---|---|---|---|---|"
  for (s = 1; s <= steps; s++) {
    split(step[s], pair, ">")
    for (w = count["width"] - 1; w <= count["width"]; w++) for (t = 1; t <= count["text"]; t++) {
      line = "| " pair[2] ", of " pair[1] " | " order["width", w] " | " order["text", t] " |"
      for (k = 1; k <= count["kind"]; k++)
        line = line " " taken(order["kind", k] SUBSEP order["width", w] SUBSEP pair[1] SUBSEP order["text", t], \
                              order["kind", k] SUBSEP order["width", w] SUBSEP pair[2] SUBSEP order["text", t]) " |"
      print line
    }
  }
}
