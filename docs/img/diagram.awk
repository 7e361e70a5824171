# SPDX-License-Identifier: Apache-2.0
# Draws a diagram in SVG, for docs/img/make.sh. Reads lines of words:
#   box NAME CLASS X Y WIDTH TEXT...     a box of 28 pixels; CLASS is box, site or late
#   arrow FROM TO                        from box to box: down or up if one is below the other, else sideways
#   text X Y TEXT...
# -v title=FINDING  -v height=PIXELS
function escaped(text) {
  gsub(/&/, "\\&amp;", text)
  gsub(/</, "\\&lt;", text)
  gsub(/>/, "\\&gt;", text)
  return text
}
function rest(from,   i, text) {
  for (i = from; i <= NF; i++) text = text (i > from ? " " : "") $i
  return escaped(text)
}
BEGIN {
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" viewBox=\"0 0 480 %d\" role=\"img\">\n", height
  printf "<title>%s</title>\n", escaped(title)
  while ((getline style_line <style) > 0) print style_line
  print "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\""
  print "orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>"
  printf "<rect class=\"back\" width=\"480\" height=\"%d\"/>\n", height
}
$1 == "box" {
  x[$2] = $4; y[$2] = $5; w[$2] = $6
  printf "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"28\" rx=\"4\"/>\n", $3, $4, $5, $6
  printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", $4 + $6 / 2, $5 + 18.5, rest(7)
}
$1 == "arrow" {
  ax = x[$2] + w[$2] / 2; bx = x[$3] + w[$3] / 2; ay = y[$2]; by = y[$3]
  if (ay + 28 <= by) ay += 28
  else if (by + 28 <= ay) by += 28
  else { ay += 14; by += 14; if (ax < bx) { ax = x[$2] + w[$2]; bx = x[$3] } else { ax = x[$2]; bx = x[$3] + w[$3] } }
  low = x[$2] > x[$3] ? x[$2] : x[$3]
  high = x[$2] + w[$2] < x[$3] + w[$3] ? x[$2] + w[$2] : x[$3] + w[$3]
  if (ay != by && high > low) ax = bx = (low + high) / 2
  printf "<path class=\"arrow\" marker-end=\"url(#head)\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", ax, ay, bx, by
}
$1 == "text" { printf "<text x=\"%d\" y=\"%d\">%s</text>\n", $2, $3, rest(4) }
END { print "</svg>" }
