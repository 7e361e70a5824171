// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/cut_spread.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "experiments/model/model.h"
#include "experiments/significance/accuracy.h"
#include "experiments/studies/sweep/table.h"
#include "quant/base/formatted.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {
namespace {

// All that models of one group share, and the cut of this one.
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
    std::get<3>(origin.shared) += text->before + "*" + text->behind + "; ";
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
  for (const std::string& model : models) {
    const auto found = std::ranges::find_if(all, [&](const SweepFigure& f) {
      return f.cell->model == model && f.cell->task == like.cell->task && f.cell->Plan() == like.cell->Plan() &&
             f.cell->Executed() == like.cell->Executed() &&
             std::string_view(f.figure->keys.name) == like.figure->keys.name;
    });
    if (found == all.end()) return {};
    of_models.push_back(&*found);
  }
  return of_models;
}

CutSpread SpreadOf(const CutModels& models, const std::vector<const SweepFigure*>& of_models) {
  const SweepFigure& first = *of_models.front();
  CutSpread spread{.models = models,
                   .task = first.cell->task,
                   .plan = first.cell->Plan() + (first.cell->Executed() ? " executed" : ""),
                   .figure = first.figure->keys};
  for (const SweepFigure* f : of_models) spread.values.push_back(f->figure->value);
  spread.value = MeanOfSamples(spread.values);
  if (std::ranges::any_of(of_models, [](const SweepFigure* f) { return f->change == nullptr; })) return spread;
  for (const SweepFigure* f : of_models) spread.changes.push_back(f->change->value);
  spread.change = MeanOfSamples(spread.changes);
  return spread;
}

std::string RowText(const CutSpread& spread) {
  return spread.models.front() + " .. " + spread.models.back() + (spread.plan == "f32" ? "" : " " + spread.plan);
}

Columns<SampleMean> MeanColumns() {
  return {{{"mean"}, &SampleMean::mean},
          {{"deviation"}, &SampleMean::deviation},
          {{"low"}, [](const SampleMean& m) { return m.interval.low; }},
          {{"high"}, [](const SampleMean& m) { return m.interval.high; }}};
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
    CutModels& group = groups.emplace_back();
    for (const auto& [cut, model] : by_cut) group.push_back(model);
  }
  return groups;
}

std::vector<CutSpread> SpreadOverCuts(const std::vector<SweepCell>& cells, const Comparisons& comparisons,
                                      const std::vector<CutModels>& groups) {
  const std::vector<SweepFigure> all = FiguresOf(cells, comparisons);
  std::vector<CutSpread> spreads;
  for (const CutModels& models : groups) {
    for (const SweepFigure& figure : all) {
      if (figure.cell->model != models.front() || !figure.InTables()) continue;
      if (const auto together = Together(all, models, figure); !together.empty())
        spreads.push_back(SpreadOf(models, together));
    }
  }
  // Groups side by side under each figure, in the order of the cells.
  std::ranges::stable_sort(spreads, {}, [&](const CutSpread& s) {
    return std::ranges::find_if(all,
                                [&](const SweepFigure& f) {
                                  return f.cell->task == s.task &&
                                         std::string_view(f.figure->keys.name) == s.figure.name;
                                }) -
           all.begin();
  });
  return spreads;
}

std::string CutSpreadTable(const std::vector<CutSpread>& spreads) {
  if (spreads.empty()) return "";
  Table table{.columns = {{.name = "task", .side = Side::kAbove},
                          {.name = "figure", .side = Side::kAbove},
                          {.name = "versions", .title = "versions", .side = Side::kLeft, .width = 22},
                          {.name = "deviation", .title = "deviation", .width = 9},
                          {.name = "value", .title = "mean, 95 % of it", .side = Side::kLeft, .width = 21},
                          {.name = "change", .title = "of the change", .side = Side::kLeft, .width = 24}}};
  for (const CutSpread& s : spreads) {
    const char* const format = s.figure.in_tables;
    table.Add({s.task, s.figure.name, RowText(s), NumberText(s.value.deviation, format),
               WithInterval(s.value.mean, s.value.interval, format),
               s.change ? WithInterval(s.change->mean, s.change->interval, Formatted("+{}", format)) : ""});
  }
  return "\nover cuts of the calibration text\n" + TableText(table, 2) +
         "\neach cut one sample of calibration: Student's interval of their mean, and the\n"
         "deviation of one; how far another calibration text moves a figure\n";
}

Table CutSpreads(const std::vector<CutSpread>& spreads) {
  Columns<CutSpread> columns{{{"models"}, &CutSpread::models},
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

}  // namespace tare
