// SPDX-License-Identifier: Apache-2.0
#include "experiments/table/table.h"

#include <algorithm>
#include <ranges>

#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// Quotes a field (doubling quotes) with a comma, quote or line break: names of models and files may have anything.
std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  return '"' + Replaced(text, "\"", "\"\"") + '"';
}

std::string CsvValue(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return Field(value.get<std::string>());
  if (value.is_number_float()) return Formatted("{}", value.get<double>());
  if (!value.is_array()) return Field(value.dump());
  std::string text;
  for (const Json& one : value) text += (text.empty() ? "" : " ") + CsvValue(one);
  return text;
}

constexpr size_t kTerminal = 80;

std::string CellText(const Column& column, const Json& row) {
  const auto found = row.find(column.name);
  if (found == row.end() || found->is_null()) return column.none;
  if (found->is_string()) return found->get<std::string>();
  if (column.format.empty() || !found->is_number_float()) return found->dump();
  const double number = column.scale * found->get<double>();
  return FormatArguments(column.format, std::make_format_args(number));
}

// The columns beside each other, where each begins, and how wide it is.
class Layout {
 public:
  Layout(const Table& table, size_t indent) {
    for (const Column& column : table.columns) {
      if (column.title.empty() || column.side == Side::kAbove || column.side == Side::kBelow) continue;
      shown_.push_back(&column);
      widths_.push_back(WidthOf(column, table.rows));
    }
    size_t cells = indent;
    for (const size_t width : widths_) cells += width;
    const size_t gap = !widths_.empty() && cells + 2 * (widths_.size() - 1) > kTerminal ? 1 : 2;
    for (size_t i = 0, at = indent; i < widths_.size(); at += widths_[i++] + gap) starts_.push_back(at);
  }

  std::string Titles() const {
    return Line(shown_ | std::views::transform(&Column::title) | std::ranges::to<std::vector>());
  }

  std::string Line(const Json& row) const {
    const auto text = [&](const Column* column) { return CellText(*column, row); };
    return Line(shown_ | std::views::transform(text) | std::ranges::to<std::vector>());
  }

 private:
  static size_t WidthOf(const Column& column, const std::vector<Json>& rows) {
    if (column.side == Side::kLeft && column.width > 0) return column.width;
    size_t width = std::max(column.width, column.title.size());
    for (const Json& row : rows) width = std::max(width, CellText(column, row).size());
    return width;
  }

  size_t StartOf(size_t i, const std::string& cell) const {
    const bool right = shown_[i]->side == Side::kRight && cell.size() < widths_[i];
    return starts_[i] + (right ? widths_[i] - cell.size() : 0);
  }

  std::string Line(std::vector<std::string> cells) const {
    if (cells.empty()) return "";
    std::string line = RunsIntoOthers(cells) ? OwnLines(std::exchange(cells[0], "")) : "";
    const size_t before = line.size();
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      const size_t used = line.size() - before;
      line += std::string(std::max(StartOf(i, cells[i]), used + (used > starts_[0] ? 1 : 0)) - used, ' ') + cells[i];
    }
    return line + "\n";
  }

  bool RunsIntoOthers(const std::vector<std::string>& cells) const {
    size_t next = 1;
    while (next < cells.size() && cells[next].empty()) ++next;
    return next < cells.size() && starts_[0] + cells[0].size() >= StartOf(next, cells[next]);
  }

  std::string OwnLines(std::string cell) const {
    const std::string blanks(starts_[0], ' ');
    std::string lines;
    while (blanks.size() + cell.size() > kTerminal) {
      const size_t comma = cell.rfind(',', kTerminal - blanks.size() - 1);
      if (comma == cell.npos) break;
      lines += blanks + cell.substr(0, comma + 1) + "\n";
      cell.erase(0, comma + 1);
    }
    return lines + blanks + cell + "\n";
  }

  std::vector<const Column*> shown_;
  std::vector<size_t> widths_, starts_;
};

// What the columns of this side have, separated by commas.
std::string Beside(const Table& table, Side side, const Json& row) {
  std::string text;
  for (const Column& column : table.columns) {
    if (column.side != side) continue;
    const std::string cell = CellText(column, row);
    text += (text.empty() || cell.empty() ? "" : ", ") + cell;
  }
  return text;
}

}  // namespace

void Table::Add(std::vector<Json> values) {
  TARE_CHECK(values.size() == columns.size());
  Json& row = rows.emplace_back(Json::object());
  for (size_t i = 0; i < values.size(); ++i)
    row[columns[i].name] = values[i].is_number_float() ? NumberOrNull(values[i].get<double>()) : std::move(values[i]);
}

Table TableOf(std::vector<Json> rows) {
  Table table{.columns = {}, .rows = std::move(rows)};
  for (const Json& row : table.rows) {
    for (const auto& [name, value] : row.items()) {
      if (!std::ranges::contains(table.columns, name, &Column::name)) table.columns.push_back({name});
    }
  }
  return table;
}

Json TableJson(const Table& table) {
  Json rows = Json::array();
  for (const Json& row : table.rows) {
    Json& object = rows.emplace_back(row);
    for (const Column& column : table.columns) {
      if (column.files == Files::kNone) object.erase(column.name);
    }
  }
  return rows;
}

std::string TableCsv(const Table& table) {
  std::vector<Column> columns = table.columns;
  std::erase_if(columns, [](const Column& column) { return column.files != Files::kAll; });
  std::string text = Listed(columns, ",", [](const Column& column) { return Field(column.name); }) + "\n";
  for (const Json& row : table.rows)
    text += Listed(columns, ",", [&](const Column& column) { return CsvValue(row.value(column.name, Json())); }) + "\n";
  return text;
}

std::string TableText(const Table& table, size_t indent) {
  const Layout layout(table, indent);
  const bool headed = std::ranges::contains(table.columns, Side::kAbove, &Column::side);
  std::string text = headed || table.columns.empty() ? "" : layout.Titles(), above;
  for (const Json& row : table.rows) {
    if (const std::string heading = Beside(table, Side::kAbove, row); headed && heading != above) {
      text += "\n" + heading + "\n" + layout.Titles();
      above = heading;
    }
    text += layout.Line(row);
    if (const std::string below = Beside(table, Side::kBelow, row); !below.empty())
      text += std::string(indent + 2, ' ') + below + "\n";
  }
  return text;
}

}  // namespace tare
