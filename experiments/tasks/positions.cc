// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/positions.h"

#include <functional>
#include <vector>

#include "experiments/significance/shown.h"
#include "experiments/table/table.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr std::string_view kError = "_stderr";

// error: null where there is none.
void ForFigures(const Json& range,
                const std::function<void(const std::string& name, double value, const Json& error)>& body) {
  for (const auto& [name, value] : range.items()) {
    if (name == "first" || name == "last" || name == "tokens" || name.ends_with(kError)) continue;
    body(name, value.get<double>(), range.value(name + std::string(kError), Json()));
  }
}

}  // namespace

std::string PositionTable(const Json& ranges) {
  Table table{.columns = {{.name = "range", .title = "predicted from", .side = Side::kLeft},
                          {.name = "tokens", .title = "tokens"}}};
  for (const Json& range : ranges) {
    const std::string first = range.at("first").dump(), last = range.at("last").dump();
    Json& row = table.rows.emplace_back(
        Json{{"range", first == last ? first : first + " to " + last}, {"tokens", range.at("tokens")}});
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      if (table.rows.size() == 1) table.columns.push_back({.name = name, .title = name});
      row[name] = error.is_null() ? NumberText(value, ".4g") : WithError(value, error.get<double>(), ".4f");
    });
  }
  return TableText(table);
}

std::vector<Json> PositionRows(const std::string& task, const Json& ranges) {
  std::vector<Json> rows;
  for (const Json& range : ranges) {
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      rows.push_back({{"task", task},
                      {"first", range.at("first")},
                      {"last", range.at("last")},
                      {"tokens", range.at("tokens")},
                      {"figure", name},
                      {"value", value},
                      {"stderr", error}});
    });
  }
  return rows;
}

}  // namespace tare
