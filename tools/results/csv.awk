# SPDX-License-Identifier: Apache-2.0
# Reads CSV for the scripts of tables: of("NAME") is this line's field in the column that the header calls NAME. A field
# with an odd number of quotes continues after the comma. Lines of a .jsonl file are left to the script.
function cut(line, to,    pieces, piece, i, n, open) {
  pieces = split(line, piece, ",")
  for (i = 1; i <= pieces; i++) {
    if (open) to[n] = to[n] "," piece[i]
    else to[++n] = piece[i]
    open = gsub(/"/, "\"", to[n]) % 2
  }
  for (i = 1; i <= n; i++) gsub(/"/, "", to[i])
  return n
}
function of(name) {
  if (!(name in column)) { print FILENAME ": got no column " name > "/dev/stderr"; failed = 1; exit 1 }
  return field[column[name]]
}
# The model's name without what both models share.
function model() { return substr(of("model"), index(of("model"), "-") + 1) }
# The text, or file of items, of a task NAME:FILE.
function text() { return substr(of("task"), index(of("task"), ":") + 1) }
# A list in the order of first sight: seen(list, value) adds the value to order[list, 1 .. count[list]].
function seen(list, value) {
  if (!((list, value) in known)) { known[list, value]; ++count[list]; order[list, count[list]] = value }
}
# Holm's correction of p[...], of `tests` hypotheses, into adjusted[...].
function holm(    k, key, least, smallest, so_far) {
  for (k = tests; k > 0; k--) {
    least = 2
    for (key in p) if (!(key in adjusted) && p[key] < least) { least = p[key]; smallest = key }
    so_far = least * k > so_far ? least * k : so_far
    adjusted[smallest] = so_far
  }
}
# VALUE +/- ERROR with one digit of the error, and at least so many decimals.
function measured(value, error, decimals,    digits, shown) {
  shown = sprintf("%.0e", error)
  digits = -substr(shown, index(shown, "e") + 1)
  if (digits < decimals) digits = decimals
  return sprintf("%.*f +/- %.*f", digits, value, digits, error)
}
FNR == 1 && FILENAME !~ /[.]jsonl$/ {
  for (name in column) delete column[name]
  for (i = cut($0, header); i > 0; i--) column[header[i]] = i
  next
}
FILENAME !~ /[.]jsonl$/ { cut($0, field) }
