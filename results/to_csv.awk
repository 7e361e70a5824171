# SPDX-License-Identifier: Apache-2.0
# The tables that it reads as CSV files, all rows: names=a,b are a.csv and b.csv in `folder`, in the order of the
# tables; a table without a name is left out.
BEGIN { split(names, called, ",") }
!/^\|/ { inside = 0; next }
{
  if (!inside) { inside = 1; line = 0; ++table; above = "" }
  if (++line == 2 || called[table] == "") next
  n = split($0, piece, "|") - 1
  if (line > 2 && piece[2] ~ /^ *$/) piece[2] = above
  above = piece[2]
  joined = ""
  for (k = 2; k <= n; k++) {
    value = piece[k]
    gsub(/^ +| +$|`/, "", value)
    gsub(/\*\*/, "", value)
    if (value ~ /[",]/) { gsub(/"/, "\"\"", value); value = "\"" value "\"" }
    joined = joined (k > 2 ? "," : "") value
  }
  print joined >(folder "/" called[table] ".csv")
}
