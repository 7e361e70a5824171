# SPDX-License-Identifier: Apache-2.0
# Part of the tables that it reads, for a page. The first cell of a row that has none is the one above. Variables:
#   tables    which of them, as 1,3: all if empty
#   rows      a regular expression of the rows that stay, of their text after the first "| "
#   columns   which columns stay, as 1,2,5
#   without   a regular expression of what all rows say and the page does not repeat
function chosen(list, k) { return list == "" || index("," list ",", "," k ",") }
function cell(k) { return piece[k + 1] }
!/^\|/ { inside = 0; if (!NF && shown) blank = 1; next }
{
  if (!inside) { inside = 1; line = 0; ++table; above = "" }
  ++line
  if (!chosen(tables, table)) next
  n = split($0, piece, "|") - 2
  if (line > 2) {
    if (piece[2] ~ /^ *$/) piece[2] = above
    above = piece[2]
    kept = piece[2]
    for (k = 2; k <= n; k++) kept = kept "|" piece[k + 1]
    if (rows != "" && substr(kept, 2) !~ rows) next
  }
  if (without != "" && line > 2) gsub(without, "", piece[2])
  kept = "|"
  for (k = 1; k <= n; k++) if (chosen(columns, k)) kept = kept cell(k) "|"
  if (blank) { print ""; blank = 0 }
  print kept
  shown = 1
}
