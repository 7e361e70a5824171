// SPDX-License-Identifier: Apache-2.0
// What keys and values in few bits lose against the bits that a cache of them takes, from sweeps with divergences:
// every plan that names keys, values or caches (experiments/plan/plan_report.h), a figure for each sweep. Of each
// model, the plans on the frontier are those that no plan of fewer or equally many bits beats.
#include <algorithm>
#include <map>
#include <utility>

#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr size_t kMostNamed = 6;  // plans of a finding

// "k=int8/token,v=grid(...)/token executed": lists of values without their values.
std::string PlanNameOf(const SweepCell& cell) {
  std::string name = cell.Plan();
  for (size_t at = name.find("grid("); at != name.npos; at = name.find("grid(", at + 1))
    name.replace(at, name.find(')', at) - at, "grid(...");
  const std::string cache = cell.key.value("cache", "");
  return name + (cache.empty() ? "" : " over " + cache) + (cell.Executed() ? " executed" : "");
}

bool NamesKeysOrValues(const SweepCell& cell) {
  const Plan plan = Plan::Parse(cell.Plan());
  const auto touched = {Site::kK, Site::kV, Site::kCacheK, Site::kCacheV};
  return std::ranges::any_of(touched, [&](Site site) { return plan.Touches(site); }) || cell.key.contains("cache");
}

void AddRow(const SweepFigure& row, FigureData& figure) {
  const Json& result = row.cell->result;
  if (std::string_view(row.figure->keys.name) != "kld") return;
  const auto is_number = [&](const char* key) { return result.contains(key) && result[key].is_number(); };
  if (!is_number("key_bits") || !is_number("value_bits")) {
    if (NamesKeysOrValues(*row.cell))
      figure.missing.push_back(Formatted("{}, {}: its bits were not counted; try the sweep again in another folder",
                                         row.cell->model, PlanNameOf(*row.cell)));
    return;
  }
  const double keys = result["key_bits"], values = result["value_bits"], kld = row.figure->value;
  const auto [low, high] = EndsOf(row);
  figure.table.Add({row.cell->task, row.cell->model, PlanNameOf(*row.cell), keys, values, (keys + values) / 2,
                    kld > 0 ? NumberOrNull(kld) : Json(), low, high, row.cell->figures.count});
}

using RowsOfModel = std::vector<Json*>;

// Each row of one task and model whose divergence is below that of all rows of fewer or equally many bits.
RowsOfModel MarkFrontier(RowsOfModel rows) {
  std::ranges::stable_sort(
      rows, {}, [](const Json* row) { return std::pair(NumberAt(*row, "bits"), NumberOr(*row, "kld", INFINITY)); });
  RowsOfModel frontier;
  double least = INFINITY;
  for (Json* row : rows) {
    const double kld = NumberOr(*row, "kld", INFINITY);
    const bool on_it = kld < least;
    (*row)["frontier"] = on_it;  // for the drawing alone
    if (on_it) least = kld, frontier.push_back(row);
  }
  return frontier;
}

std::string FindingOf(const RowsOfModel& frontier) {
  const Json& first = *frontier.front();
  std::string named;
  const size_t count = std::min(frontier.size(), kMostNamed);
  for (size_t i = 0; i < count; ++i)
    named += Formatted("{}{:.3g} bits {:.2g} ({})",
                       i == 0          ? ""
                       : i + 1 < count ? ", "
                                       : " and ",
                       NumberAt(*frontier[i], "bits"), NumberAt(*frontier[i], "kld"),
                       frontier[i]->at("plan").get<std::string>());
  return Formatted("The least divergence of {} on {}, in nats per token: with {}{}.",
                   first.at("model").get<std::string>(), first.at("panel").get<std::string>(), named,
                   frontier.size() > count ? "; the table has those of more bits" : "");
}

FigureData FigureOf(const Sweep& sweep) {
  FigureData figure{.name = "caches",
                    .title = "Keys and values: divergence against bits",
                    .caption =
                        "Kullback-Leibler divergence from the model without a plan, nats per token (log), against the "
                        "bits per value that a cache of these keys and values takes, with its scales in 16 bits. Bars "
                        "are 95 % intervals, by window. Lines join the plans that no plan of fewer or equally many "
                        "bits beats; neighbours on them were not tested against each other. n: predicted tokens.",
                    .table = {.columns = {{"panel", "task"},
                                          {"model", "model"},
                                          {"plan", "plan"},
                                          {"key_bits", "bits per key value"},
                                          {"value_bits", "bits per value"},
                                          {"bits", "mean bits"},
                                          {"kld", "divergence (nats)"},
                                          {"low", "from"},
                                          {"high", "to"},
                                          {"n", "tokens"}}},
                    .drawn = {"kld"}};
  for (const SweepFigure& row : sweep.Figures()) AddRow(row, figure);
  return figure;
}

void AddFrontiers(FigureData& figure) {
  std::map<std::pair<std::string, std::string>, RowsOfModel> models;
  for (Json& row : figure.table.rows) models[{row.at("panel"), row.at("model")}].push_back(&row);
  for (const auto& [of, rows] : models) {
    const RowsOfModel frontier = MarkFrontier(rows);
    if (!frontier.empty()) figure.findings.push_back(FindingOf(frontier));
  }
}

}  // namespace

std::vector<FigureData> CachesAgainstBits(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) {
    FigureData figure = FigureOf(sweep);
    if (std::ranges::all_of(figure.table.rows, [](const Json& row) { return row.at("kld").is_null(); })) continue;
    AddFrontiers(figure);
    if (!figures.empty()) figure.name += Formatted(":{}", figures.size() + 1);
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace tare
