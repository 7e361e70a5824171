// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/pair_spread.h"

#include <algorithm>

#include "experiments/significance/accuracy.h"
#include "experiments/studies/sweep/cell_key.h"
#include "experiments/studies/sweep/table.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

std::string PlanOf(const Json& cell) {
  const Json& key = cell.at("key");
  return key.at("plan").get<std::string>() + (key.contains("executed") ? " executed" : "");
}

// Seeds differ in weights, and configurations may differ in more than the model's shape. Tokenizers are the same.
bool IsOfTheModel(const std::string& setting) {
  return setting == "model" || setting == "weights" || setting == "stats" || setting == "config.json";
}

// The second model's cells, which have the differences, and the first's.
struct Cells {
  std::vector<const Json*> first, second;
};
Cells CellsOf(const ComparedPair& pair) {
  Cells cells;
  for (const Json& cell : pair.sweep.at("cells")) {
    const bool is_first = cell.at("model") == pair.sweep["cells"][0].at("model");
    (is_first ? cells.first : cells.second).push_back(&cell);
  }
  if (cells.first.empty() || cells.second.empty()) Fail("{}: got one model, expected two", pair.where);
  return cells;
}

std::string HashOf(const Json& cell, const char* name) { return cell.at("key").value(name, std::string()); }

void RequireOtherWeights(const Json& cell, const Json& own, const std::string& where, const std::string& own_where) {
  if (HashOf(cell, "weights") == HashOf(own, "weights"))
    Fail("{}: got the weights of {} as in {}, expected a model trained from another seed", where,
         cell.at("model").get<std::string>(), own_where);
}

// Pairs may differ in weights, but in nothing else that a comparison depends on.
void RequireAnotherSeed(const ComparedPair& pair, const Cells& cells, const ComparedPair& own, const Cells& own_cells) {
  const Json &first = *cells.first.front(), &second = *cells.second.front(), &own_first = *own_cells.first.front(),
             &own_second = *own_cells.second.front();
  const auto config = [](const Json& cell) { return HashOf(cell, "config.json"); };
  if (config(first) == config(own_second) && config(first) != config(own_first))
    Fail("{}: got the two models in the other order than {}; try tare compare with the models swapped", pair.where,
         own.where);
  RequireOtherWeights(first, own_first, pair.where, own.where);
  RequireOtherWeights(second, own_second, pair.where, own.where);
}

// The same task under the same plan.
const Json& SameCell(const ComparedPair& pair, const Cells& cells, const Json& own, const std::string& where) {
  const auto same = [&](const Json* cell) {
    return cell->at("task") == own.at("task") && PlanOf(*cell) == PlanOf(own);
  };
  const auto found = std::ranges::find_if(cells.second, same);
  if (found == cells.second.end())
    Fail("{}: got no {} under {}, expected all that {} has; try tare compare with the same options", pair.where,
         own.at("task").get<std::string>(), PlanOf(own), where);
  const Json key = IdentityOf((*found)->at("key")), own_key = IdentityOf(own.at("key"));
  for (const auto& [setting, value] : own_key.items()) {
    if (!IsOfTheModel(setting) && (!key.contains(setting) || key[setting] != value))
      Fail("{}: {}: got another {} than {}, expected the same; try tare compare with the same options", pair.where,
           own.at("task").get<std::string>(), setting, where);
  }
  return **found;
}

const Json* DifferenceOf(const Json& cell, const std::string& figure) {
  for (const Json& difference : cell.at("differences")) {
    if (difference.at("figure").get<std::string>() == figure) return &difference;
  }
  return nullptr;
}

// The plans of one figure of a task after each other.
std::vector<PairSpread> ByFigure(std::vector<PairSpread> spreads) {
  const auto same = [](const PairSpread& a, const PairSpread& b) {
    return a.task == b.task && std::string_view(a.figure.name) == b.figure.name;
  };
  for (auto next = spreads.begin(); next != spreads.end();)
    next =
        std::stable_partition(next, spreads.end(), [&, first = *next](const PairSpread& s) { return same(s, first); });
  return spreads;
}

}  // namespace

ComparedPair ReadComparedPair(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "compare.json";
  if (!std::filesystem::exists(path))
    Fail("{}: got no compare.json, expected a folder that --out of tare compare made, finished", folder.string());
  const MappedFile file(path);
  Json json = ParseOrderedJson(file.text(), path.string());
  try {
    ComparedPair pair{folder.string(), std::move(json.at("sweep"))};
    CellsOf(pair);
    return pair;
  } catch (const Json::exception& error) {
    Fail("{}: {}; was it made by another version? Try making it again", path.string(), error.what());
  }
}

std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs) try {
  std::vector<Cells> cells;
  for (const ComparedPair& pair : pairs) cells.push_back(CellsOf(pair));
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) RequireAnotherSeed(pairs[i], cells[i], pairs[j], cells[j]);
  }
  std::vector<PairSpread> spreads;
  for (const Json* own : cells.at(0).second) {
    for (const Json& difference : own->at("differences")) {
      const std::string name = difference.at("figure"), task = own->at("task");
      const FigureKeys* const figure = ShownFigure(task, name);
      if (figure == nullptr) continue;
      PairSpread spread{.task = task, .plan = PlanOf(*own), .figure = *figure, .differences = {}};
      for (size_t i = 0; i < pairs.size(); ++i) {
        const Json& cell = i == 0 ? *own : SameCell(pairs[i], cells[i], *own, pairs[0].where);
        const Json* const of_pair = DifferenceOf(cell, name);
        if (of_pair == nullptr) Fail("{}: {}: got no difference of {}", pairs[i].where, task, name);
        spread.differences.push_back(of_pair->at("value"));
      }
      spread.of_pairs = MeanOfSamples(spread.differences);
      spreads.push_back(std::move(spread));
    }
  }
  return spreads;
} catch (const Json::exception& error) {
  Fail("a comparison of another pair: {}; was it made by another version? Try making it again", error.what());
}

std::string PairSpreadTable(const std::vector<PairSpread>& spreads) {
  if (spreads.empty()) return "";
  Table table{.columns = {{.name = "task", .side = Side::kAbove},
                          {.name = "figure", .side = Side::kAbove},
                          {.name = "plan", .title = "plan", .side = Side::kLeft, .width = 28},
                          {.name = "deviation", .title = "deviation", .width = 12},
                          {.name = "mean", .title = "mean, 95 % of it", .side = Side::kLeft, .width = 30}}};
  for (const PairSpread& s : ByFigure(spreads))
    table.Add({s.task, s.figure.name, s.plan, NumberText(s.of_pairs.deviation, s.figure.in_tables),
               WithInterval(s.of_pairs.mean, s.of_pairs.interval, Formatted("+{}", s.figure.in_tables))});
  const size_t pairs = spreads[0].differences.size();
  return Formatted("\nover {} pairs: the difference of their changes\n", pairs) + TableText(table, 2) +
         Formatted(
             "\n{} pairs, each one sample of training: Student's interval of their mean, which\n"
             "applies to these two recipes only\n",
             pairs);
}

Table PairSpreads(const std::vector<PairSpread>& spreads) {
  Columns<PairSpread> columns{{{"task"}, &PairSpread::task},
                              {{"plan"}, &PairSpread::plan},
                              {{"figure"}, [](const PairSpread& s) { return s.figure.name; }},
                              {{"pairs"}, [](const PairSpread& s) { return s.differences.size(); }},
                              {{"mean"}, [](const PairSpread& s) { return s.of_pairs.mean; }},
                              {{"deviation"}, [](const PairSpread& s) { return s.of_pairs.deviation; }}};
  AddPart(columns, "", IntervalColumns(), [](const PairSpread& s) { return &s.of_pairs.interval; });
  columns.push_back({{"differences"}, &PairSpread::differences});
  return TableOf(columns, spreads);
}

}  // namespace tare
