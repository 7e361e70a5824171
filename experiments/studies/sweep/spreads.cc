// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "experiments/model/model.h"
#include "experiments/studies/sweep/cells.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/mapped_file.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/plan/presets.h"

namespace tare {
namespace {

// The properties that models of one group share, and the cut of this one.
struct Origin {
  std::tuple<std::string, std::string, std::string, std::string> shared;
  size_t cut = 0;
};

// "a.txt, sha256 ..., cut 0/5 by 16384 tokens, ..., 16352 tokens in 32 windows, sha256 ..." (calibration_texts.h): what
// stands before the cut's number and behind it, without the windows, which follow from the cut.
struct TextOfCut {
  std::string before, behind;
  size_t cut = 0;
};

std::optional<TextOfCut> ParseTextOfCut(std::string_view text) {
  constexpr std::string_view kCut = ", cut ", kWindows = " tokens in ";
  const size_t cut = text.find(kCut), slash = text.find('/', std::min(cut, text.size())),
               windows = text.rfind(kWindows);
  if (cut == text.npos || slash == text.npos || windows == text.npos || windows < slash) return {};
  const size_t first = cut + kCut.size();
  const auto number = ParseNumber<size_t>(text.substr(first, slash - first));
  if (!number) return {};
  const std::string_view behind = text.substr(slash, windows - slash);
  return TextOfCut{std::string(text.substr(0, first)), std::string(behind.substr(0, behind.rfind(", "))), *number};
}

// Empty for a model that is not of a cut, the same of all its texts.
std::optional<Origin> OriginOf(const std::filesystem::path& model) {
  const Checkpoint files(model);
  if (files.quantized() == nullptr) return {};
  const Provenance& p = files.quantized()->provenance();
  Origin origin{.shared = {p.plan, p.method, p.source_sha256, ""}};
  std::optional<size_t> cut;
  for (size_t begin = 0; begin < p.calibration.size();) {
    const size_t end = std::min(p.calibration.find("; ", begin), p.calibration.size());
    const auto text = ParseTextOfCut(std::string_view(p.calibration).substr(begin, end - begin));
    if (!text || (cut && *cut != text->cut)) return {};
    cut = text->cut;
    std::string& texts = std::get<3>(origin.shared);
    const std::string one = text->before + "*" + text->behind + "; ";
    if (!texts.contains(one)) texts += one;  // a method of two steps has it twice
    begin = end + 2;
  }
  if (!cut) return {};
  origin.cut = *cut;
  return origin;
}

// The figures of a group's models under one plan and task, in the order of the models; empty if some have none.
std::vector<const SweepFigure*> Together(const std::vector<SweepFigure>& all, const CutModels& models,
                                         const SweepFigure& like) {
  std::vector<const SweepFigure*> of_models;
  for (const std::string& model : models.names) {
    const SweepFigure* const found = FindWhere(all, [&](const SweepFigure& f) {
      return f.cell->model == model && f.cell->task == like.cell->task && f.cell->Plan() == like.cell->Plan() &&
             f.cell->Executed() == like.cell->Executed() &&
             std::string_view(f.figure->keys.name) == like.figure->keys.name;
    });
    if (found == nullptr) return {};
    of_models.push_back(found);
  }
  return of_models;
}

CutSpread SpreadOf(const CutModels& models, const std::vector<const SweepFigure*>& of_models) {
  const SweepFigure& first = *of_models.front();
  CutSpread spread{.models = models,
                   .task = first.cell->task,
                   .plan = first.cell->Plan() + (first.cell->Executed() ? " executed" : ""),
                   .figure = first.figure->keys,
                   .primary = first.figure == &first.cell->figures.list[first.cell->figures.Primary()]};
  for (const SweepFigure* f : of_models) spread.values.push_back(f->figure->value);
  spread.value = MeanOfSamples(spread.values);
  if (std::ranges::any_of(of_models, [](const SweepFigure* f) { return f->change == nullptr; })) return spread;
  for (const SweepFigure* f : of_models) spread.changes.push_back(f->change->value);
  spread.change = MeanOfSamples(spread.changes);
  return spread;
}

// How much higher than another method's, cut by cut.
PairSpread DifferenceOf(const CutSpread& of, const CutSpread& from) {
  PairSpread difference{
      .task = of.task, .plan = of.Name() + " minus " + from.Name(), .figure = of.figure, .differences = {}};
  for (size_t cut = 0; cut < of.values.size(); ++cut)
    difference.differences.push_back(of.values[cut] - from.values[cut]);
  const auto& [mean, deviation, interval] = difference.of_pairs = MeanOfSamples(difference.differences);
  const auto n = static_cast<double>(of.values.size());
  if (of.primary && deviation > 0)
    difference.p = StudentTwoSided(mean / deviation * std::sqrt(n), static_cast<int>(of.values.size()) - 1);
  return difference;
}

Columns<SampleMean> MeanColumns() {
  return {{{"mean"}, &SampleMean::mean},
          {{"deviation"}, &SampleMean::deviation},
          {{"low"}, [](const SampleMean& m) { return m.interval.low; }},
          {{"high"}, [](const SampleMean& m) { return m.interval.high; }}};
}

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

// Pairs may differ in weights, but in nothing else that a comparison depends on.
void RequireAnotherSeed(const ComparedPair& pair, const Cells& cells, const ComparedPair& own, const Cells& own_cells) {
  const Json &first = *cells.first.front(), &second = *cells.second.front(), &own_first = *own_cells.first.front(),
             &own_second = *own_cells.second.front();
  const auto config = [](const Json& cell) { return HashOf(cell, "config.json"); };
  if (config(first) == config(own_second) && config(first) != config(own_first))
    Fail("{}: got the two models in the other order than {}; try tare compare with the models swapped", pair.where,
         own.where);
  for (const auto& [cell, twin] : {std::pair{&first, &own_first}, {&second, &own_second}}) {
    if (HashOf(*cell, "weights") == HashOf(*twin, "weights"))
      Fail("{}: got the weights of {} as in {}, expected a model trained from another seed", pair.where,
           cell->at("model").get<std::string>(), own.where);
  }
}

// The second model's cell of the same task under the same plan.
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

bool IsSame(const auto& a, const auto& b) {
  return a.task == b.task && std::string_view(a.figure.name) == b.figure.name;
}

// The rows of one figure of a task after each other.
template <typename Spread>
std::vector<Spread> ByFigure(std::vector<Spread> spreads) {
  for (auto next = spreads.begin(); next != spreads.end();)
    next = std::stable_partition(next, spreads.end(), [first = *next](const Spread& s) { return IsSame(s, first); });
  return spreads;
}

std::string RowsOf(const std::vector<PairSpread>& spreads) {
  Table table{.columns = {{.name = "task", .side = Side::kAbove},
                          {.name = "figure", .side = Side::kAbove},
                          Left("plan", "plan", 28),
                          {.name = "deviation", .title = "deviation", .width = 12},
                          Left("mean", "mean, 95 % of it", 30)}};
  for (const PairSpread& s : ByFigure(spreads))
    table.Add({s.task, s.figure.name, ShownName(s.plan), NumberText(s.of_pairs.deviation, s.figure.in_tables),
               WithInterval(s.of_pairs.mean, s.of_pairs.interval, Formatted("+{}", s.figure.in_tables)) +
                   (s.Significant() ? " *" : "")});
  return TableText(table, 2);
}

}  // namespace

std::vector<CutModels> ModelsByCuts(const std::vector<std::filesystem::path>& models) {
  std::map<decltype(Origin::shared), std::map<size_t, std::string>> by_origin;
  for (const std::filesystem::path& model : models) {
    if (const std::optional<Origin> origin = OriginOf(model))
      by_origin[origin->shared].emplace(origin->cut, ModelName(model));  // of two of one cut the first
  }
  std::vector<CutModels> groups;
  for (const auto& [shared, by_cut] : by_origin) {
    if (by_cut.size() < 2) continue;
    const auto& [plan, method, source, text] = shared;
    CutModels& group = groups.emplace_back();
    std::vector<size_t> cuts;
    for (const auto& [cut, model] : by_cut) cuts.push_back(cut), group.names.push_back(model);
    group.alike = Formatted("{}; {}; {}cuts {}", plan, source, text, RangesText(cuts));
  }
  return groups;
}

std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups) {
  const std::vector<SweepFigure> all = FiguresOf(cells, comparisons);
  std::vector<CutSpread> spreads;
  for (const CutModels& models : groups) {
    for (const SweepFigure& figure : all) {
      if (figure.cell->model != models.names.front() || !figure.InTables()) continue;
      if (const auto together = Together(all, models, figure); !together.empty())
        spreads.push_back(SpreadOf(models, together));
    }
  }
  return ByFigure(std::move(spreads));
}

std::string CutSpread::Name() const {
  return models.names.front() + " .. " + models.names.back() + (plan == "f32" ? "" : " " + plan);
}

std::string CutSpreadTable(const std::vector<CutSpread>& spreads) {
  if (spreads.empty()) return "";
  Table table{.columns = {{.name = "task", .side = Side::kAbove},
                          {.name = "figure", .side = Side::kAbove},
                          Left("versions", "versions", 22),
                          {.name = "deviation", .title = "deviation", .width = 9},
                          Left("value", "mean, 95 % of it", 21),
                          Left("change", "of the change", 24)}};
  for (const CutSpread& s : spreads) {
    const char* const format = s.figure.in_tables;
    table.Add({s.task, s.figure.name, s.Name(), NumberText(s.value.deviation, format),
               WithInterval(s.value.mean, s.value.interval, format),
               s.change ? WithInterval(s.change->mean, s.change->interval, Formatted("+{}", format)) : ""});
  }
  return "\nover cuts of the calibration text\n" + TableText(table, 2) +
         "\neach cut one sample of calibration: Student's interval of their mean, and the\n"
         "deviation of one; how far another calibration text moves a figure\n";
}

Table CutSpreads(const std::vector<CutSpread>& spreads) {
  Columns<CutSpread> columns{{{"models"}, [](const CutSpread& s) { return s.models.names; }},
                             {{"alike"}, [](const CutSpread& s) { return s.models.alike; }},
                             {{"task"}, &CutSpread::task},
                             {{"plan"}, &CutSpread::plan},
                             {{"figure"}, [](const CutSpread& s) { return s.figure.name; }},
                             {{"cuts"}, [](const CutSpread& s) { return s.values.size(); }}};
  AddPart(columns, "value", MeanColumns(), [](const CutSpread& s) { return &s.value; });
  columns.push_back({{"values"}, &CutSpread::values});
  AddPart(columns, "change", MeanColumns(), &CutSpread::change);
  columns.push_back({{"changes"}, &CutSpread::changes});
  return TableOf(columns, spreads);
}

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
    RefuseOdd(path.string(), error);
  }
}

std::vector<PairSpread> SpreadOverPairs(const std::vector<ComparedPair>& pairs) try {
  auto cells = pairs | std::views::transform(CellsOf) | std::ranges::to<std::vector>();
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
        const Json* const of_pair =
            FindWhere(cell.at("differences"), [&](const Json& d) { return d.at("figure").get<std::string>() == name; });
        if (of_pair == nullptr) Fail("{}: {}: got no difference of {}", pairs[i].where, task, name);
        spread.differences.push_back(of_pair->at("value"));
      }
      spread.of_pairs = MeanOfSamples(spread.differences);
      spreads.push_back(std::move(spread));
    }
  }
  return spreads;
} catch (const Json::exception& error) {
  RefuseOdd("a comparison of another pair", error);
}

std::vector<PairSpread> DifferencesOverCuts(const std::vector<CutSpread>& spreads) {
  std::vector<PairSpread> differences;
  for (const CutSpread& of : spreads) {
    for (const CutSpread& from : spreads) {
      const bool paired = &from < &of && IsSame(from, of) && from.plan == of.plan &&
                          from.models.alike == of.models.alike && from.values.size() == of.values.size();
      if (paired) differences.push_back(DifferenceOf(of, from));
    }
  }
  AddHolm(differences);
  return differences;
}

std::string PairSpreadTable(const std::vector<PairSpread>& spreads) {
  if (spreads.empty()) return "";
  const size_t pairs = spreads[0].differences.size();
  return Formatted("\nover {} pairs: the difference of their changes\n", pairs) + RowsOf(spreads) +
         Formatted(
             "\n{} pairs, each one sample of training: Student's interval of their mean, which\n"
             "applies to these two recipes only\n",
             pairs);
}

std::string CutDifferenceTable(const std::vector<PairSpread>& differences) {
  if (differences.empty()) return "";
  const auto has_p = [](const PairSpread& difference) { return difference.p.has_value(); };
  return "\nbetween methods, cut by cut\n" + RowsOf(differences) +
         Formatted("\n* p < 0.05 by Student's t over the cuts, after Holm over {}\n",
                   Counted(std::ranges::count_if(differences, has_p), "difference"));
}

Table PairSpreads(const std::vector<PairSpread>& spreads) {
  Columns<PairSpread> columns{{{"task"}, &PairSpread::task},
                              {{"plan"}, &PairSpread::plan},
                              {{"preset"}, [](const PairSpread& s) { return PresetJson(s.plan); }},
                              {{"figure"}, [](const PairSpread& s) { return s.figure.name; }},
                              {{"pairs"}, [](const PairSpread& s) { return s.differences.size(); }}};
  AddPart(columns, "", MeanColumns(), [](const PairSpread& s) { return &s.of_pairs; });
  for (const auto& [name, p] : {std::pair{"p", &PairSpread::p}, {"p_holm", &PairSpread::p_holm}})
    columns.push_back(
        {{.name = name, .files = Files::kJson}, [p](const PairSpread& s) { return s.*p ? Json(*(s.*p)) : Lacking(); }});
  columns.push_back({{"differences"}, &PairSpread::differences});
  return TableOf(columns, spreads);
}

}  // namespace tare
