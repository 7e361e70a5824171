# SPDX-License-Identifier: Apache-2.0
# Draws one chart in SVG, for docs/img/make.sh: legible at phone width, in light and dark. Reads lines of fields that
# tabs separate; a panel's lines follow it.
#   panel  NAME                    a panel, from top to bottom
#   x      LABEL  SCALE  MIN  MAX  TICK,...   SCALE is linear or log; a tick VALUE=TEXT shows TEXT
#   y      LABEL  SCALE  MIN  MAX  TICK,...   or SCALE names: rows, in the order of their points
#   point  SERIES  X  Y  [LOW  HIGH]  an interval of Y, or of X if y has names
#   note   X  TEXT                 above the panel
#   cell   NAME  COLUMN  VALUE  TEXT          of a map of heat; VALUE is 0 to 1
# SERIES is NAME/STYLE: standard or differential, and plain, dashed, open or step. Points of a plain or dashed series
# are joined.
# -v title=FINDING  -v height=PIXELS of a panel  -v left=PIXELS for labels
# -v legend=[|]SERIES=TEXT,... with | for a new line
function escaped(text) {
  gsub(/&/, "\\&amp;", text)
  gsub(/</, "\\&lt;", text)
  gsub(/>/, "\\&gt;", text)
  return text
}
function text_at(x, y, anchor, class, text) {
  printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, \
    (class == "" ? "" : " class=\"" class "\""), escaped(text)
}
function line(x1, y1, x2, y2, class) {
  printf "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2
}
function share(value, axis,   low, high) {
  low = from[axis]; high = to[axis]
  if (scale[axis] == "log") return log(value / low) / log(high / low)
  return (value - low) / (high - low)
}
function at_x(value) { return left + (width - left - right) * share(value, "x") }
function at_y(value) {
  if (scale["y"] == "names") return top + row_height * (row[panel, value] - 0.5)
  return top + inner * (1 - share(value, "y"))
}
function color(series) { return series ~ /^standard/ ? "a" : series ~ /^differential/ ? "b" : "c" }
function mark(series, x, y) {
  if (series ~ /^standard/)
    printf "<circle class=\"mark %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", marks(series), x, y
  else printf "<path class=\"mark %s\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"/>\n", marks(series), x, y - 5
}
function marks(series) { return color(series) (series ~ /open|dashed/ ? " open" : "") }
function axes(axis,   n, i, one, value, said) {
  n = split(ticks[axis], one, ",")
  for (i = 1; i <= n; i++) {
    value = said = one[i]
    if (sub(/=.*/, "", value)) sub(/[^=]*=/, "", said)
    if (axis == "x") {
      if (!cells) line(at_x(value), top, at_x(value), top + inner, "grid")
      text_at(at_x(value), top + inner + 18, "middle", "", said)
    } else {
      line(left, at_y(value), width - right, at_y(value), "grid")
      text_at(left - 8, at_y(value) + 4.5, "end", "", said)
    }
  }
}
function draw(   i, k, x, y, path, f, heat) {
  inner = height
  if (scale["y"] == "names") inner = rows[panel] * row_height
  axes("x")
  if (scale["y"] != "names") axes("y")
  else for (i = 1; i <= rows[panel]; i++) {
    if (!cells) line(left, top + row_height * (i - 0.5), width - right, top + row_height * (i - 0.5), "grid")
    text_at(left - 8, top + row_height * (i - 0.5) + 4.5, "end", "", row_name[panel, i])
  }
  cell_width = (width - left - right) / (to["x"] - from["x"])
  if (panel_name != "") text_at(left, top - 9, "start", "strong", panel_name)
  if (label["y"] != "") text_at(width - right, top - 9, "end", "", label["y"])
  for (k = 1; k <= series_count; k++) {
    path = ""
    for (i = 1; i <= points; i++) {
      split(point[i], f, "\t")
      if (f[2] != series[k]) continue
      x = at_x(f[3]); y = at_y(f[4])
      path = path sprintf("%s%.1f %.1f", path == "" ? "M" : "L", x, y)
      if (f[5] != "" && f[6] != "") {
        if (scale["y"] == "names") line(at_x(f[5]), y, at_x(f[6]), y, "bar " color(f[2]))
        else line(x, at_y(f[5]), x, at_y(f[6]), "bar " color(f[2]))
      }
    }
    if (series[k] ~ /plain|dashed/) printf "<path class=\"line %s%s\" d=\"%s\"/>\n", color(series[k]), \
      (series[k] ~ /dashed/ ? " dashed" : ""), path
    for (i = 1; i <= points; i++) {
      split(point[i], f, "\t")
      if (f[2] != series[k]) continue
      mark(f[2], at_x(f[3]), at_y(f[4]))
    }
  }
  for (i = 1; i <= cells; i++) {
    split(cell[i], f, "\t")
    x = left + (f[3] + 0) * cell_width
    y = top + row_height * (row[panel, f[2]] - 1)
    printf "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill-opacity=\"%.2f\"/>\n", \
      color(panel_name), x + 1, y + 1, cell_width - 2, row_height - 2, f[4]
    text_at(x + cell_width / 2, y + row_height / 2 + 4.5, "middle", f[4] > 0.55 ? "over" : "", f[5])
  }
  top += inner + (label["x"] == "" ? 28 : 44)
  if (label["x"] != "") text_at((left + width - right) / 2, top - 8, "middle", "", label["x"])
  points = cells = 0
}
BEGIN {
  FS = "\t"
  width = 480; right = 16; row_height = row_height ? row_height : 24
  if (!left) left = 52
  if (!height) height = 200
  }
$1 == "panel" { panel_of[++panels] = $2 }
$1 == "x" || $1 == "y" || $1 == "point" || $1 == "cell" || $1 == "note" {
  input[panels, ++inputs[panels]] = $0
  if ($1 == "point" && !($2 in known)) { known[$2]; series[++series_count] = $2 }
  name = $1 == "cell" ? $2 : $4
  if ($1 == "y") axis_scale[panels] = $3
  if (($1 == "cell" || ($1 == "point" && axis_scale[panels] == "names")) && !((panels, name) in row)) {
    row[panels, name] = ++rows[panels]
    row_name[panels, rows[panels]] = name
  }
}
END {
  legends = split(legend, entry, ",")
  if (entry[legends] == "") --legends
  legend_rows = 0
  for (i = 1; i <= legends; i++) {
    spot = entry[i]; sub(/.*=/, "", spot)
    size = 38 + 6.6 * length(spot)
    if (i == 1 || entry[i] ~ /^[|]/ || reach + size > width) { ++legend_rows; reach = 12 }
    legend_x[i] = reach; legend_y[i] = legend_rows * 22; reach += size
  }
  total = 34 + legend_rows * 22
  for (panel = 1; panel <= panels; panel++) {
    label_x = ""
    for (i = 1; i <= inputs[panel]; i++) { split(input[panel, i], f, "\t"); if (f[1] == "x") label_x = f[2] }
    total += (rows[panel] ? rows[panel] * row_height : height) + (label_x == "" ? 28 : 44) + (panel > 1 ? 26 : 0)
  }
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, total
  printf "<title>%s</title>\n", escaped(title)
  while ((getline style_line <style) > 0) print style_line
  printf "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", width, total
  for (i = 1; i <= legends; i++) {
    key = said = entry[i]
    sub(/^[|]/, "", key); sub(/=.*/, "", key); sub(/.*=/, "", said)
    if (key ~ /plain|dashed/)
      line(legend_x[i] - 6, legend_y[i] - 4, legend_x[i] + 18, legend_y[i] - 4, "line " color(key) \
        (key ~ /dashed/ ? " dashed" : ""))
    mark(key, legend_x[i] + 6, legend_y[i] - 4)
    text_at(legend_x[i] + 22, legend_y[i], "start", "", said)
  }
  top = legend_rows * 22 + 26
  for (panel = 1; panel <= panels; panel++) {
    panel_name = panel_of[panel]
    if (panel > 1) top += 26
    for (i = 1; i <= inputs[panel]; i++) {
      split(input[panel, i], f, "\t")
      if (f[1] == "x" || f[1] == "y") {
        label[f[1]] = f[2]; scale[f[1]] = f[3]; from[f[1]] = f[4]; to[f[1]] = f[5]; ticks[f[1]] = f[6]
      } else if (f[1] == "note") text_at(at_x(f[2]), top - 9, "middle", "strong", f[3])
      else if (f[1] == "point") point[++points] = input[panel, i]
      else cell[++cells] = input[panel, i]
    }
    draw()
  }
  print "</svg>"
}
