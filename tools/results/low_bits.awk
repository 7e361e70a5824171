# SPDX-License-Identifier: Apache-2.0
# Versions KIND_WIDTH_METHOD_CUT of two models at four bits and fewer: divergence from the source and perplexity over
# the source's, by method and width, with Student's interval over the cuts of the calibration text; then how much of the
# divergence of rounding to nearest a method leaves in each model, whether that share is another one in the differential
# model (paired by cut, of logarithms; a star: significantly, after Holm over the cells that have cuts), and the method
# that leaves least, without svdquant, whose branch costs bits. From the table.csv of `tare sweep --source` of each
# model.
BEGIN {
  n = split("int4 int4+zero int3 int3+zero int2 int2+zero e8p", list, " ")
  for (i = 1; i <= n; i++) seen("width", list[i])
  n = split("rtn hadamard+rtn awq+rtn gptq hadamard+gptq gptaq qronos gptaq+quantease " \
            "cayley+gptaq+quantease signround autoround svdquant", list, " ")
  for (i = 1; i <= n; i++) seen("method", list[i])
  seen("kind", "standard"); seen("kind", "differential")
}
of("change") != "" && of("figure") ~ /^(kld|perplexity_ratio)$/ {
  split(of("model"), part, "_")
  key = part[1] SUBSEP part[2] SUBSEP part[3] SUBSEP of("figure")
  loss[key, ++cuts[key]] = (of("figure") == "kld" ? 1000 : 1) * of("value")
}
function has_cuts(width, method,    key) {
  key = "differential" SUBSEP width SUBSEP method SUBSEP "kld"
  return key in cuts && cuts[key] == 5
}
function shown(key,    i, m, sum, half, d) {
  for (i = 1; i <= cuts[key]; i++) m += loss[key, i] / cuts[key]
  d = key ~ /kld$/ ? (m < 10 ? 2 : m < 100 ? 1 : 0) : m < 2 ? 3 : 2
  if (cuts[key] == 1) return sprintf("%.*f", d, m)
  for (i = 1; i <= cuts[key]; i++) sum += (loss[key, i] - m) ^ 2
  half = 2.776 * sqrt(sum / (cuts[key] - 1) / cuts[key])  # the 97.5 % point of Student's t with 4 degrees
  return sprintf("%.*f [%.*f, %.*f]", d, m, d, m - half, d, m + half)
}
# p of Student's t with four degrees, two-sided (Abramowitz and Stegun 26.7.4).
function p_of_t(t,    angle) {
  angle = atan2(t < 0 ? -t : t, 2)
  return 1 - sin(angle) * (1 + cos(angle) ^ 2 / 2)
}
function log_left(kind, width, method, i,    rtn) {
  rtn = kind SUBSEP width SUBSEP "rtn" SUBSEP "kld"
  return log(loss[kind, width, method, "kld", i] / loss[rtn, 1])
}
# The mean share that a method leaves, and its best figure.
function left(kind, width, method,    key, i, m) {
  key = kind SUBSEP width SUBSEP method SUBSEP "kld"
  for (i = 1; i <= cuts[key]; i++) m += log_left(kind, width, method, i) / cuts[key]
  return exp(m)
}
function best(kind, width,    m, method, least, name) {
  for (m = 1; m <= count["method"]; m++) {
    method = order["method", m]
    if (method ~ /svdquant/ || !((kind, width, method, "kld") in cuts)) continue
    if (name && left(kind, width, method) >= least) continue
    name = method
    least = left(kind, width, name)
  }
  return name
}
# p of a row's shares being the same in both models.
function compare(row, width, method,    i, d, m, sum) {
  for (i = 1; i <= 5; i++) {
    d[i] = log_left("differential", width, method, i) - log_left("standard", width, method, i)
    m += d[i] / 5
  }
  for (i = 1; i <= 5; i++) sum += (d[i] - m) ^ 2
  p[row] = p_of_t(m / sqrt(sum / 4 / 5))
  tests++
}
function print_head(title,    w, head, rule) {
  head = "| " title " |"
  rule = "|---|"
  for (w = 1; w <= count["width"]; w++) { head = head " " order["width", w] " |"; rule = rule "---|" }
  print head "\n" rule
}
function print_figures(kind, figure, title,    w, m, line, key) {
  print_head(kind ", " title)
  for (m = 1; m <= count["method"]; m++) {
    line = "| " order["method", m] " |"
    for (w = 1; w <= count["width"]; w++) {
      key = kind SUBSEP order["width", w] SUBSEP order["method", m] SUBSEP figure
      line = line (key in cuts ? " " shown(key) " |" : " |")
    }
    print line
  }
  print ""
}
END {
  for (k = 1; k <= count["kind"]; k++) print_figures(order["kind", k], "kld", "KL divergence")
  for (k = 1; k <= count["kind"]; k++) print_figures(order["kind", k], "perplexity_ratio", "perplexity")
  for (m = 1; m <= count["method"]; m++) for (w = 1; w <= count["width"]; w++)
    if (has_cuts(order["width", w], order["method", m]))
      compare(order["method", m] SUBSEP order["width", w], order["width", w], order["method", m])
  holm()
  print_head("left of rtn's: standard, differential")
  for (m = 2; m <= count["method"]; m++) {
    method = order["method", m]
    line = "| " method " |"
    for (w = 1; w <= count["width"]; w++) {
      width = order["width", w]
      if (!(("differential", width, method, "kld") in cuts)) { line = line " |"; continue }
      star = (method, width) in adjusted && adjusted[method, width] < 0.05 ? " *" : ""
      line = line sprintf(" %.2f, %.2f%s |", left("standard", width, method), left("differential", width, method), star)
    }
    print line
  }
  for (k = 1; k <= count["kind"]; k++) {
    line = "| least in the " order["kind", k] " model |"
    for (w = 1; w <= count["width"]; w++) line = line " " best(order["kind", k], order["width", w]) " |"
    print line
  }
}
