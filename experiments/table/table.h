// SPDX-License-Identifier: Apache-2.0
// A result as a table: columns that are declared once, and rows with values by column name. A column defines its name
// in JSON and CSV, and its heading and number format in text; writers and readers use only the names.
//
//   const Columns<Speed> kColumns{{Left("kernel", "kernel"), &Speed::kernel},
//                                 {Number("seconds", "ms", "{:.3f}", 0, 1e3), &Speed::seconds},
//                                 {{"threads"}, [](const Speed& s) { return s.machine.threads; }}};
//
// is {"kernel": "tare", "seconds": 0.0015, "threads": 2} in JSON, kernel,seconds,threads in CSV, kernel and ms in text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/json.h"

namespace tare {

// A column's place in text. kAbove: on a line above the rows that share its value; kBelow: on a line below its row.
enum class Side { kRight, kLeft, kAbove, kBelow };
enum class Files { kAll, kJson, kNone };

struct Column {
  std::string name;
  std::string title = {};   // with its unit; a column without one, beside others, is left out of text
  std::string format = {};  // in text, for numbers that are not whole: "{:.1f}%"; empty: as in JSON
  Side side = Side::kRight;
  double scale = 1;  // in text, multiplies numbers: 100 for per cent
  size_t width = 0;  // in text, at least; exactly for a column on the left: longer text runs over empty cells after it
  Files files = Files::kAll;
  std::string none = {};  // in text, for null
};

// A column of text.
inline Column Left(std::string name, std::string title, size_t width = 0) {
  return {.name = std::move(name), .title = std::move(title), .side = Side::kLeft, .width = width};
}
// A column of numbers.
inline Column Number(std::string name, std::string title, std::string format, size_t width = 0, double scale = 1) {
  return {
      .name = std::move(name), .title = std::move(title), .format = std::move(format), .scale = scale, .width = width};
}

struct Table {
  std::vector<Column> columns;
  // Objects by column name, of text, numbers, booleans, arrays of these, or null; members may be missing.
  std::vector<Json> rows;

  // Takes one value per column, in order; NaN and infinities become null.
  void Add(std::vector<Json> values);
};

// Columns in the order in which the rows first name them.
Table TableOf(std::vector<Json> rows);

// Null for NaN, infinities and an empty optional.
template <typename T>
Json AsJson(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return NumberOrNull(value);
  } else {
    return Json(value);
  }
}
template <typename T>
Json AsJson(const std::optional<T>& value) {
  return value ? AsJson(*value) : Json();
}

// For a value that a row does not have at all: in JSON its name is missing, too.
inline Json Lacking() { return Json(Json::value_t::discarded); }

// A column of a table whose rows are each made from one Of.
template <typename Of>
struct ColumnOf {
  Column column;
  std::function<Json(const Of&)> value;

  // get: a member of Of, or a function of it.
  template <typename Get>
  ColumnOf(Column of, Get get)
      : column(std::move(of)), value([get](const Of& row) { return AsJson(std::invoke(get, row)); }) {}
};
template <typename Of>
using Columns = std::vector<ColumnOf<Of>>;

template <typename Of>
Json RowOf(const Columns<Of>& columns, const Of& of) {
  Json row = Json::object();
  for (const ColumnOf<Of>& column : columns) {
    if (Json value = column.value(of); !value.is_discarded()) row[column.column.name] = std::move(value);
  }
  return row;
}

template <typename Of, typename All>
Table TableOf(const Columns<Of>& columns, const All& all) {
  Table table;
  for (const ColumnOf<Of>& column : columns) table.columns.push_back(column.column);
  for (const Of& of : all) table.rows.push_back(RowOf(columns, of));
  return table;
}

// Adds the columns of a part, which is an optional or a pointer; if it is empty they are null. The part's column
// `value` is named `prefix`, others `prefix`_name; without a prefix all keep their names.
template <typename Of, typename Part, typename Get>
void AddPart(Columns<Of>& columns, const std::string& prefix, const Columns<Part>& part, Get get) {
  for (const ColumnOf<Part>& own : part) {
    Column column = own.column;
    if (!prefix.empty()) column.name = prefix + (column.name == "value" ? "" : "_" + column.name);
    columns.push_back({std::move(column), [get, value = own.value](const Of& of) {
                         const auto& some = std::invoke(get, of);
                         return some ? value(*some) : Json();
                       }});
  }
}

// The rows as an array, without columns that are for text only.
Json TableJson(const Table& table);
// RFC 4180, names first: numbers in the fewest digits that restore them, nothing for null, arrays split by blanks.
std::string TableCsv(const Table& table);
// For people: titles, then rows, indented by `indent` blanks. Two blanks separate columns, or one if lines would exceed
// 80; none end a line. A first cell that is too long gets its own lines above, broken at commas.
std::string TableText(const Table& table, size_t indent = 0);

}  // namespace tare
