// SPDX-License-Identifier: Apache-2.0
#include "experiments/table/table.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// Quotes a field (doubling its own quotes) if it has a comma, a quote or a line break: names of models and files may
// contain anything.
std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string(2, c) : std::string(1, c);
  return field + '"';
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

}  // namespace

void Table::Add(std::vector<Json> values) {
  TARE_CHECK(values.size() == columns.size());
  Json& row = rows.emplace_back(Json::object());
  for (size_t i = 0; i < values.size(); ++i) row[columns[i].name] = std::move(values[i]);
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
  std::string names, text;
  for (const Column& column : table.columns) {
    if (column.files == Files::kAll) names += (names.empty() ? "" : ",") + Field(column.name);
  }
  for (const Json& row : table.rows) {
    std::string line;
    for (const Column& column : table.columns) {
      if (column.files == Files::kAll) line += "," + CsvValue(row.value(column.name, Json()));
    }
    text += line.substr(1) + "\n";
  }
  return names + "\n" + text;
}

}  // namespace tare
