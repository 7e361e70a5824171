// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/positions.h"

#include <functional>
#include <vector>

#include "experiments/significance/shown.h"
#include "experiments/text/columns.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;
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
  std::vector<std::vector<std::string>> rows{{"predicted from", "tokens"}};
  for (const Json& range : ranges) {
    const std::string first = range.at("first").dump(), last = range.at("last").dump();
    std::vector<std::string> row{first == last ? first : first + " to " + last, range.at("tokens").dump()};
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      if (rows.size() == 1) rows[0].push_back(name);
      row.push_back(error.is_null() ? NumberText(value, ".4g") : WithError(value, error.get<double>(), ".4f"));
    });
    rows.push_back(std::move(row));
  }
  for (std::vector<std::string>& row : rows) row.resize(rows[0].size());
  return InColumns(rows, 1);
}

std::string PositionCsv(const std::string& task, const Json& ranges) {
  std::string lines;
  for (const Json& range : ranges) {
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      lines += Formatted("{},{},{},{},{},{},{}\n", CsvField(task), range.at("first").dump(), range.at("last").dump(),
                         range.at("tokens").dump(), name, Json(value).dump(), error.is_null() ? "" : error.dump());
    });
  }
  return lines;
}

std::string PositionCsvHeader() { return "task,first,last,tokens,figure,value,stderr\n"; }

}  // namespace tare
