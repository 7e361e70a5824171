# SPDX-License-Identifier: Apache-2.0
# Divergence, 10^-3 nats a token, by the size of blocks with one scale each: standard / differential, of each text, from
# the table.csv of a sweep of both models.
function shown(value) { return sprintf(value < 10 ? "%.2f" : "%.1f", value) }
of("figure") == "kld" && of("plan") != "f32" {
  site = substr(of("plan"), 1, index(of("plan"), "=") - 1)
  column_of = site ": " (of("plan") ~ /grid/ ? "E2M1" : "int4")
  block = of("plan")
  sub(/.*\/group/, "", block); sub(/,.*/, "", block)
  seen("text", text()); seen("column", column_of); seen("block", block); seen("model", model())
  loss[model(), text(), block, column_of] = 1000 * of("value")
}
END {
  for (t = 1; t <= count["text"]; t++) {
    head = (t > 1 ? "\n" : "") "| " order["text", t] ", block |"; rule = "|---|"
    for (c = 1; c <= count["column"]; c++) { head = head " " order["column", c] " |"; rule = rule "---|" }
    print head "\n" rule
    for (b = 1; b <= count["block"]; b++) {
      line = "| " order["block", b] (order["block", b] == 256 ? ", a row" : "") " |"
      for (c = 1; c <= count["column"]; c++)
        line = line " " shown(loss["standard", order["text", t], order["block", b], order["column", c]]) " / " \
               shown(loss["differential", order["text", t], order["block", b], order["column", c]]) " |"
      print line
    }
  }
}
