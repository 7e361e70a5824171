# SPDX-License-Identifier: Apache-2.0
# The lines of a CSV as rows of a table, below csv.awk; plans and commands as code.
!headed++ {
  line = "|"
  rule = "|"
  for (i = 1; i in header; i++) { line = line " " header[i] " |"; rule = rule "---|" }
  print line "\n" rule
}
{
  line = "|"
  for (i = 1; i in header; i++) {
    code = header[i] ~ /^(plan|command)$/ && field[i] ~ /[=]|^tare/ ? "`" : ""
    line = line (field[i] == "" ? " |" : " " code field[i] code " |")
  }
  print line
}
