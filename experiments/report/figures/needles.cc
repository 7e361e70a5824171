// SPDX-License-Identifier: Apache-2.0
// Needles found by where they lie and how long the text is, of `tare eval --by depth,length`.
#include <algorithm>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

// By length, then depth: axes are in the order of the rows.
void AddGroups(const std::string& panel, const Json& task, FigureData& figure) {
  std::vector<FigureRow> rows;
  for (const Json& group : task.at("by")) {
    if (!group.contains("depth") || !group.contains("length")) return;
    rows.push_back({panel, group["depth"], group["length"], NumberOrNull(NumberAt(group, "acc")),
                    NumberOrNull(NumberAt(group, "acc_low")), NumberOrNull(NumberAt(group, "acc_high")),
                    group.at("n")});
  }
  const auto worst = std::ranges::min_element(
      rows, {}, [](const FigureRow& row) { return row[3].is_null() ? INFINITY : row[3].get<double>(); });
  if (worst == rows.end()) return;
  double least = 1, found = 0, all = 0;
  for (const FigureRow& row : rows) {
    if (row[3].is_null()) continue;
    least = std::min(least, row[3].get<double>());
    found += row[3].get<double>() * row[6].get<double>();
    all += row[6].get<double>();
  }
  const std::string fewest = least == 1 ? ""
                                        : Formatted("; fewest, {:.2f} of {}, at depth {:g} and length {}", least,
                                                    (*worst)[6].dump(), (*worst)[1].get<double>(), (*worst)[2].dump());
  if (all > 0) figure.findings.push_back(Formatted("{}: {:.0f} of {:.0f} needles found{}.", panel, found, all, fewest));
  figure.rows.insert(figure.rows.end(), rows.begin(), rows.end());
}

}  // namespace

std::vector<FigureData> Needles(const Material& material) {
  FigureData figure{.name = "needles",
                    .title = "Needles found by depth and length",
                    .columns = {{"panel", "model, plan, items"},
                                {"depth", "depth"},
                                {"length", "length"},
                                {"acc", "share found", true},
                                {"low", "from"},
                                {"high", "to"},
                                {"n", "items"}}};
  material.ForEach("tare.eval/1", [&](const Json& json) {
    for (const auto& [name, task] : json.at("tasks").items()) {
      if (task.contains("by")) AddGroups(EvaluatedName(json) + ", " + name.substr(name.find(':') + 1), task, figure);
    }
  });
  if (figure.rows.empty()) return {};
  const auto [fewest, most] =
      std::ranges::minmax(figure.rows, {}, [](const FigureRow& row) { return row[6].get<int64_t>(); });
  figure.caption = Formatted(
      "Share of items whose needle was found, by its depth (0: the text begins with it, 1: ends) and the text's length "
      "in tokens; the table has 95 % intervals. n: {} items per cell.",
      RangeName(fewest[6], most[6]));
  return {figure};
}

}  // namespace tare
