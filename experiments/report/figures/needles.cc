// SPDX-License-Identifier: Apache-2.0
// Needles found, by their depth and the length of the text, from `tare eval --by depth,length`.
#include <algorithm>

#include "experiments/report/figures/figures.h"
#include "experiments/report/figures/sentences.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// `panel` names the rows; `subject` and `items` are the finding's.
void AddGroups(const std::string& subject, const std::string& items, const std::string& panel, const Json& task,
               FigureData& figure) {
  const Json* worst = nullptr;
  double least = 1, found = 0, all = 0;
  for (const Json& group : task.at("by")) {
    if (!group.contains("depth") || !group.contains("length")) return;
    const double acc = NumberAt(group, "acc"), n = NumberAt(group, "n");
    figure.table.Add({panel, group["depth"], group["length"], NumberOrNull(acc),
                      NumberOrNull(NumberAt(group, "acc_low")), NumberOrNull(NumberAt(group, "acc_high")), group["n"]});
    if (std::isnan(acc)) continue;
    if (acc < least) least = acc, worst = &group;
    found += acc * n;
    all += n;
  }
  if (all == 0) return;
  const std::string fewest =
      worst == nullptr ? ""
                       : Formatted(", and the fewest at depth {:g} and length {}: a share of {:.2f} [{:.2f}, {:.2f}]",
                                   NumberAt(*worst, "depth"), worst->at("length").dump(), least,
                                   NumberAt(*worst, "acc_low"), NumberAt(*worst, "acc_high"));
  figure.findings.push_back(
      Formatted("{} finds {:.0f} of the {:.0f} needles of {}{}.", subject, found, all, items, fewest));
}

}  // namespace

std::vector<FigureData> Needles(const Material& material) {
  FigureData figure{.name = "needles",
                    .title = "Needles found by depth and length",
                    .table = {.columns = {{"panel", "model, plan, items"},
                                          {"depth", "depth"},
                                          {"length", "length"},
                                          {"acc", "share found"},
                                          {"low", "from"},
                                          {"high", "to"},
                                          {"n", "items"}}},
                    .drawn = {"acc"}};
  material.ForEach("tare.eval/1", [&](const Json& json) {
    for (const auto& [name, task] : json.at("tasks").items()) {
      const std::string items = name.substr(name.find(':') + 1);
      if (task.contains("by")) AddGroups(EvaluatedText(json), items, EvaluatedName(json) + ", " + items, task, figure);
    }
  });
  if (figure.table.rows.empty()) return {};
  const auto [fewest, most] =
      std::ranges::minmax(figure.table.rows, {}, [](const Json& row) { return row.at("n").get<int64_t>(); });
  figure.caption = Formatted(
      "Share of items whose needle was found, by its depth (0: at the start of the text, 1: at its end) and the text's "
      "length in tokens; the table has 95 % intervals. n: {} items per cell.",
      RangeName(fewest.at("n"), most.at("n")));
  return {figure};
}

}  // namespace tare
