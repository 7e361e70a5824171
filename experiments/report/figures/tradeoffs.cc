// SPDX-License-Identifier: Apache-2.0
// Loss against bits: a format's error at a site, from statistics with --formats; the loss of keys and values in few
// bits, from sweeps with divergences: a figure per sweep with every plan that names keys, values or caches
// (experiments/plan/plan_report.h), whose frontier no plan of fewer or equal bits beats; and the frontier of `tare
// search`: each step's predicted loss, measured and allowed losses, or within a size its measured plans.
#include <charconv>

#include "experiments/observe/statistics_report.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"
#include "quant/format/format.h"

namespace tare {
namespace {

constexpr std::string_view kShown[] = {"attn_logits", "probs", "layer_out",    "q",
                                       "k",           "v",     "down_proj.in", "down_proj.w"};
constexpr int kScaleBits = 32, kBlockScaleBits = 8;  // an f32 per group; a byte per block of formats with their own

// Bits per value: "int4/group64" takes 4 + 32/64. Scales of a row or more count nothing. Empty for an unknown format.
std::optional<double> BitsOf(const std::string& measured) {
  const size_t slash = std::min(measured.find('/'), measured.size());
  const std::optional<Format> format = ParseFormat(measured.substr(0, slash));
  if (!format) return {};
  const FormatInfo& info = Info(*format);
  if (info.block > 0) return info.bits + static_cast<double>(kBlockScaleBits) / info.block;
  const size_t digits = measured.find_first_of("0123456789", slash);
  int group = 0;
  if (digits != measured.npos) std::from_chars(measured.data() + digits, measured.data() + measured.size(), group);
  return info.bits + (group > 0 ? static_cast<double>(kScaleBits) / group : 0.0);
}

uint64_t ValuesOf(const StatisticsSet& set, std::string_view site) {
  uint64_t values = 0;
  for (const auto& [key, s] : set.sites) values += Name(key.site) == site ? s.outliers.count() : 0;
  return values;
}

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
  std::vector<std::string> named;
  const size_t count = std::min(frontier.size(), kMostNamed);
  for (size_t i = 0; i < count; ++i)
    named.push_back(Formatted("{:.3g} bits {:.2g} ({})", NumberAt(*frontier[i], "bits"), NumberAt(*frontier[i], "kld"),
                              frontier[i]->at("plan").get<std::string>()));
  return Formatted("The least divergence of {} on {}, in nats per token: with {}{}.",
                   first.at("model").get<std::string>(), first.at("panel").get<std::string>(),
                   Listed(named, ", ", {}, " and "),
                   frontier.size() > count ? "; the table has those of more bits" : "");
}

FigureData FigureOf(const Sweep& sweep) {
  FigureData figure = FigureOfKind("caches");
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

// A line across, from the most bits to the fewest.
void AddLimit(const std::string& panel, const Json& json, FigureData& figure) {
  const Json& frontier = json.at("frontier");
  for (const Json* point : {&frontier.front(), &frontier.back()})
    figure.table.Add(
        {panel, "allowed", nullptr, NumberAt(*point, "bits"), NumberAt(json, "within"), nullptr, nullptr, nullptr});
}

std::string MeasuredLoss(const Json& point) {
  const Json& change = point.at("tasks").at(0).at("change");
  const double low = NumberAt(change, "low"), high = NumberAt(change, "high");
  return Formatted("{:.3g}", NumberAt(change, "value")) +
         (std::isnan(high - low) ? "" : Formatted(" [{:.3g}, {:.3g}]", low, high));
}

std::string FindingOf(const Json& json, const Json& answer) {
  const std::string panel = json.at("model"), loses = MeasuredLoss(answer);
  const double bits = NumberAt(answer, "bits"), predicted = NumberAt(answer, "predicted");
  if (const auto budget = json.find("budget"); budget != json.end())
    return Formatted(
        "The plan chosen for {} within {:.3g} bits per weight has {:.2f} and loses {} nats per token; the "
        "prediction was {:.3g}.",
        panel, NumberAt(*budget, "bits_per_weight"), bits, loses, predicted);
  return Formatted(
      "The cheapest measured plan of {} that loses at most {:.3g} nats per token has {:.2f} bits per operand and loses "
      "{}; the prediction was {:.3g}.",
      panel, NumberAt(json, "within"), bits, loses, predicted);
}

void AddSearch(const Json& json, FigureData& figure) {
  const std::string panel = json.at("model");
  const Json& frontier = json.at("frontier");
  if (frontier.empty()) return;
  for (const Json& point : frontier)
    figure.table.Add({panel, "predicted", point.at("step"), NumberAt(point, "bits"), NumberAt(point, "predicted"),
                      nullptr, nullptr, nullptr});
  const Json* answer = nullptr;
  for (const Json& point : json.at("verified")) {
    const Json& change = point.at("tasks").at(0).at("change");
    figure.table.Add({panel, "measured", point.at("step"), NumberAt(point, "bits"), NumberAt(change, "value"),
                      NumberAt(change, "low"), NumberAt(change, "high"), point.at("plan")});
    if (point.at("plan") == json.at("plan")) answer = &point;
  }
  if (!json.contains("budget")) AddLimit(panel, json, figure);
  if (answer != nullptr) figure.findings.push_back(FindingOf(json, *answer));
}

}  // namespace

std::vector<FigureData> ErrorAgainstBits(const Material& material) {
  FigureData figure = FigureOfKind("error");
  for (const ModelStatistics& of : material.statistics) {
    const Json sites = OverviewSqnrJson(of.set, 0);
    for (const std::string_view site : kShown) {
      if (!sites.contains(site)) continue;
      for (const std::string& format : of.set.formats) {
        const auto sqnr = sites[std::string(site)].find(format + ".sqnr_db");
        const std::optional<double> bits = BitsOf(format);
        if (bits && sqnr != sites[std::string(site)].end())
          figure.table.Add({site, of.model, format, *bits, *sqnr, ValuesOf(of.set, site)});
      }
    }
  }
  if (figure.table.rows.empty()) return {};
  std::ranges::stable_sort(figure.table.rows, {}, [](const Json& row) {
    return std::ranges::find(kShown, row.at("site").get<std::string>()) - std::ranges::begin(kShown);
  });
  const Json& worst =
      std::ranges::min(figure.table.rows, {}, [](const Json& row) { return NumberOr(row, "sqnr", INFINITY); });
  if (worst.at("sqnr").is_null()) return {figure};
  const auto text = [&](const char* column) { return worst.at(column).get<std::string>(); };
  figure.findings.push_back(
      Formatted("Of these sites, {} in {} has the lowest signal-to-noise ratio, {:.1f} dB with {}.", text("site"),
                text("model"), NumberAt(worst, "sqnr"), text("format")));
  return {figure};
}

std::vector<FigureData> CachesAgainstBits(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) {
    FigureData figure = FigureOf(sweep);
    if (std::ranges::all_of(figure.table.rows, [](const Json& row) { return row.at("kld").is_null(); })) continue;
    AddFrontiers(figure);
    figures.push_back(std::move(figure));
  }
  return WithRows(figures);
}

std::vector<FigureData> Frontiers(const Material& material) {
  FigureData figure = FigureOfKind("frontier");
  material.ForEach("tare.search/1", [&](const Json& json) { AddSearch(json, figure); });
  return WithRows({figure});
}

}  // namespace tare
