// SPDX-License-Identifier: Apache-2.0
// A result as a table: columns that are declared once, and rows of values by the columns' names. A column
// defines its name in JSON and CSV, and its heading and number format in text; writers and readers use the names
// alone.
//
//   const Columns<Speed> kColumns{{{"kernel", "kernel", "", Side::kLeft}, &Speed::kernel},
//                                 {{"seconds", "ms", "{:.3f}", Side::kRight, 1e3}, &Speed::seconds},
//                                 {{"threads"}, [](const Speed& s) { return s.machine.threads; }}};
//
// is {"kernel": "tare", "seconds": 0.0015, "threads": 2} in JSON, kernel,seconds,threads in CSV, and kernel and ms in
// text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/json_value.h"

namespace tare {

// Where a column stands in text. kAbove: on a line above the rows that have it in common; kBelow: on a line below its
// row.
enum class Side { kRight, kLeft, kAbove, kBelow };
enum class Files { kAll, kJson, kNone };

struct Column {
  std::string name;
  std::string title = {};   // with its unit; a column beside others that has none is not in text
  std::string format = {};  // of a number in text that is not whole: "{:.1f}%"; none: as JSON has it
  Side side = Side::kRight;
  double scale = 1;  // of a number in text: 100 for per cent
  size_t width = 0;  // in text at least; of a column on the left just so: longer text runs over empty cells after it
  Files files = Files::kAll;
  std::string none = {};  // in text, for null
};

// A column of numbers in text.
inline Column Number(std::string name, std::string title, std::string format, size_t width = 0, double scale = 1) {
  return {
      .name = std::move(name), .title = std::move(title), .format = std::move(format), .scale = scale, .width = width};
}

struct Table {
  std::vector<Column> columns;
  // Objects by the columns' names: text, numbers, booleans, arrays of these, or null; some may be lacking.
  std::vector<Json> rows;

  // One value for each column, in their order.
  void Add(std::vector<Json> values);
};

// Columns by the names of the rows, in the order in which they come first.
Table TableOf(std::vector<Json> rows);

// Numbers that are none, and what an optional lacks, are null.
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

// Of what a row does not have at all: in JSON the name is missing, too.
inline Json Lacking() { return Json(Json::value_t::discarded); }

// A column of a table whose rows are each made of one Of.
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

// Adds the columns of a part, an optional or a pointer; where there is none they are null. `value` of the part is
// called `prefix`, any other column `prefix`_name; without a prefix all keep their names.
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

// The rows as an array, without columns that are in no file.
Json TableJson(const Table& table);
// As RFC 4180 has it, the names in the first line: numbers by the fewest digits that are theirs, null and what is
// lacking as nothing, arrays with blanks between.
std::string TableCsv(const Table& table);
// For people: a line of titles, then the rows, each `indent` blanks in. Two blanks between columns, one where lines
// would be wider than a terminal's usual 80; no blanks end a line. A first cell that runs into others has lines of its
// own above, broken at its commas.
std::string TableText(const Table& table, size_t indent = 0);

}  // namespace tare
