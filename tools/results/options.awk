# SPDX-License-Identifier: Apache-2.0
# What an option changes in the divergence of a plan, in 10^-3 nats a token, text by text and model by model, paired by
# window: from the cells.jsonl of a sweep over plans without and with it. A star: significant after Holm over all rows,
# models and texts; an option of f32 is not tested, as its divergence cannot be 0. The test is that of
# experiments/significance/mean_error.h, of an even number of waves.
function gamma_of_half(n) { return n == 1 ? sqrt(pi) : n == 2 ? 1 : (n / 2 - 1) * gamma_of_half(n - 2) }
# p of Student's t, two-sided, of an even number of degrees (Abramowitz and Stegun 26.7.4).
function student_p(t, degrees,    angle, term, sum, i) {
  angle = atan2(t < 0 ? -t : t, sqrt(degrees))
  for (term = sum = i = 1; i <= degrees / 2 - 1; i++) sum += term *= (2 * i - 1) / (2 * i) * cos(angle) ^ 2
  return 1 - sin(angle) * sum
}
function student_end(degrees,    low, high, middle) {
  for (high = 20; high - low > 1e-12; ) {
    middle = (low + high) / 2
    if (student_p(middle, degrees) > 0.05) low = middle
    else high = middle
  }
  return low
}
# p of a mean of 0 of x[1 .. n], and its error.
function p_of_mean(x, n,    i, j, mean, d, squares, cubes, waves, wave, sum, skew, end, scale, a, b, t) {
  for (i = 1; i <= n; i++) mean += x[i] / n
  for (i = 1; i <= n; i++) { d = x[i] - mean; squares += d ^ 2; cubes += d ^ 3 }
  if (squares == 0) return 1
  waves = int(n / 10 < 0.4 * n ^ (2 / 3) ? n / 10 : 0.4 * n ^ (2 / 3))
  if (waves < 2 || waves % 2) { print n " windows: not of an even number of waves" > "/dev/stderr"; exit 1 }
  for (j = 1; j <= waves; j++) {
    wave = 0
    for (i = 1; i <= n; i++) wave += (x[i] - mean) * cos(pi * j * (i - 0.5) / n)
    sum += wave ^ 2 * 2 / n
  }
  error = sqrt((1 + 12 * (waves / n) ^ 2) * sum / waves / n)
  skew = 1.25 * cubes / n / (squares / n) ^ 1.5 * sqrt(n * (n - 1)) / (n - 2) / sqrt(n)
  end = student_end(waves)
  scale = sqrt((waves + end ^ 2) / 2)
  a = skew / 3 * gamma_of_half(waves + 2) / gamma_of_half(waves + 1) / scale
  b = skew / 6 * gamma_of_half(waves) / gamma_of_half(waves + 1) * scale
  t = mean / error
  return student_p(t * (1 + a * t + (a * t) ^ 2 / 3) + b, waves)
}
# The string, or the numbers, of a key of this line.
function string(key) { return found(key, "\"[^\"]*\"") }
function numbers(key) { return found(key, "\\[[^]]*\\]") }
function found(key, value) {
  match($0, "\"" key "\":" value)
  return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
}
function shown(value) { return sprintf(value < 1 ? "%.3f" : value < 10 ? "%.2f" : "%.1f", value) }
BEGIN { pi = atan2(0, -1) }
{
  name = string("model")
  sub(/^[^-]*-/, "", name)
  of_text = string("task")
  sub(/^[^:]*:/, "", of_text)
  seen("model", name)
  seen("text", of_text)
  seen("plan", plan = string("plan"))
  klds[plan, of_text, name] = numbers("window_klds")
  tokens = numbers("window_tokens") + 0
}
# The p of the option's change in a column, and the mean divergences before and after it.
function change(row, column,    i, n, from, to, x) {
  n = split(klds[row, column], to, ",")
  split(klds[base[row], column], from, ",")
  before[row, column] = after[row, column] = 0
  for (i = 1; i <= n; i++) {
    x[i] = (to[i] - from[i]) / tokens
    before[row, column] += 1e3 * from[i] / tokens / n
    after[row, column] += 1e3 * to[i] / tokens / n
  }
  if (base[row] !~ /=f32$/) { p[row, column] = p_of_mean(x, n); tests++ }
}
END {
  head = "| plan | and |"
  rule = "|---|---|"
  for (t = 1; t <= count["text"]; t++)
    for (m = 1; m <= count["model"]; m++) {
      column_is[++columns] = order["text", t] SUBSEP order["model", m]
      head = head " " (t == 1 ? "" : order["text", t] ": ") order["model", m] " |"
      rule = rule "---|"
    }
  for (i = 1; i <= count["plan"]; i++) {
    plan = order["plan", i]
    if (!match(plan, /[+][a-z]+[0-9]*$/)) continue
    options[plan] = substr(plan, RSTART)
    base[plan] = plan
    gsub(/[+][a-z]+[0-9]*/, "", base[plan])
    seen("row", plan)
    for (c = 1; c <= columns; c++) change(plan, column_is[c])
  }
  holm()
  print head "\n" rule
  for (r = 1; r <= count["row"]; r++) {
    row = order["row", r]
    line = "| `" base[row] "` | `" options[row] "` |"
    for (c = 1; c <= columns; c++) {
      key = row SUBSEP column_is[c]
      line = line " " shown(before[key]) " to " shown(after[key])
      if (key in p) line = line sprintf(" (%+.0f %%)", 100 * (after[key] / before[key] - 1))
      if (key in p && adjusted[key] < 0.05) line = line " *"
      line = line " |"
    }
    print line
  }
}
