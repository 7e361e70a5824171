// SPDX-License-Identifier: Apache-2.0
// The cost of each part, the most expensive first: sites of `tare sweep --each-site` at the fewest bits, plans of
// several sites, and parts of `tare attribute`, each alone and, if that was measured, each taken out.
#include "experiments/report/figures/figures.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

Table EffectTable(const char* site, const char* series) {
  return Titled({"panel: task", Formatted("site: {}", site), Formatted("series: {}", series), "plan", "change",
                 "low: from", "high: to", "n"});
}

std::string AttributionPanelOf(const SweepFigure& row) { return row.cell->task + ", " + row.figure->keys.name; }

// Changes of each task's primary figure, the largest first.
std::vector<SweepFigure> ChangedRows(const Sweep& sweep) {
  std::vector<SweepFigure> rows = sweep.Figures();
  std::erase_if(rows, [](const SweepFigure& row) {
    return row.change == nullptr || row.figure != &row.cell->figures.list.front();
  });
  std::ranges::stable_sort(rows, std::greater(), [](const SweepFigure& row) { return std::fabs(row.change->value); });
  return rows;
}

// Whether a row of the bits shows each of the sites, alone.
bool ShowSites(const std::vector<SweepFigure>& rows, int bits) {
  return std::ranges::all_of(rows, [&](const SweepFigure& row) {
    const std::string& site = row.cell->row.site;
    return !site.contains(',') && std::ranges::any_of(rows, [&](const SweepFigure& other) {
      return other.cell->row.site == site && other.cell->row.bits == bits;
    });
  });
}

// A sweep of several sites: each site at the fewest bits, or each plan, if these are no single sites.
FigureData AttributionOf(const Sweep& sweep) {
  constexpr size_t kSaid = 6;  // plans with a sentence of their own; the table has all
  std::vector<SweepFigure> rows = ChangedRows(sweep);
  const auto of_another = [&](const SweepFigure& row) { return row.cell->row.site != rows.front().cell->row.site; };
  if (std::ranges::none_of(rows, of_another)) return {};
  const int bits = std::ranges::min(rows, {}, [](const SweepFigure& row) { return row.cell->row.bits; }).cell->row.bits;
  const bool by_site = ShowSites(rows, bits);
  if (by_site) std::erase_if(rows, [&](const SweepFigure& row) { return row.cell->row.bits != bits; });
  FigureData figure{
      .name = "attribution",
      .title = by_site ? "Which site costs what" : "What each plan costs",
      .caption = Formatted("Change from the unquantized model with {}, in each task's own figure; thin bars are 95 % "
                           "intervals, paired.",
                           by_site ? Formatted("{} bits for one site alone", bits) : "each plan"),
      .table = EffectTable(by_site ? "site" : "run", "model"),
      .drawn = {"change"}};
  std::vector<std::string> known;
  for (const SweepFigure& row : rows) {
    const auto [low, high] = EndsOf(row.change->interval);
    figure.table.Add({AttributionPanelOf(row), by_site ? row.cell->row.site : RunName(*row.cell), row.cell->model,
                      row.cell->Plan(), row.change->value, low, high, row.cell->figures.count});
    const bool said = by_site || row.cell->AsStored();  // the latter as what its file loses (methods.cc)
    if (!said && figure.findings.size() < kSaid) figure.findings.push_back(CostSentence(row));
    const std::string of = AttributionPanelOf(row) + " of " + row.cell->model;
    if (std::ranges::contains(known, of)) continue;  // sorted: the first changes most
    known.push_back(of);
    const std::string n = Formatted(" n: {}.", CountText(*row.cell));
    if (!figure.caption.contains(n)) figure.caption += n;  // of another model
    if (by_site)
      figure.findings.push_back(Formatted("With {} bits for one site alone, {} changes {}'s {} most: it {}.", bits,
                                          row.cell->row.site, row.cell->model,
                                          FigureOnText(row.cell->task, row.figure->keys.name), MoveText(row)));
  }
  return figure;
}

constexpr size_t kMostParts = 30;

void AddEffect(const std::string& panel, const std::string& part, const char* effect, const Json& plan,
               const Json& change, const Json& n, FigureData& figure) {
  figure.table.Add({panel, part, effect, plan, NumberAt(change, "value"), change.at("low"), change.at("high"), n});
}

// The rows of one task's figure, and its finding.
void AddParts(const Json& json, const Json& f, FigureData& figure) {
  const std::string panel = f.at("task").get<std::string>() + ", " + f.at("figure").get<std::string>();
  const Json n = f.value("n", Json()), &plan = json.at("plan"), &parts = f.at("parts");
  for (size_t i = 0; i < std::min(parts.size(), kMostParts); ++i) {
    const std::string part = parts[i].at("part");
    AddEffect(panel, part, "alone", parts[i].at("alone_plan"), parts[i].at("alone"), n, figure);
    if (const Json& taken_out = parts[i].at("taken_out"); !taken_out.is_null())
      AddEffect(panel, part, "taken out", parts[i].at("without_plan"), taken_out, n, figure);
  }
  if (parts.size() > kMostParts)
    figure.missing.push_back(Formatted("{}: the {} most expensive of {} parts are shown; all are in attribution.csv",
                                       panel, kMostParts, parts.size()));
  AddEffect(panel, "left over", "together", plan, f.at("left_over"), n, figure);
  AddEffect(panel, "the whole plan", "together", plan, f.at("change"), n, figure);
  figure.caption += Formatted(" n: {} of {}.", n.is_null() ? "not given" : n.dump(), f.at("task").get<std::string>());
  if (parts.empty()) return;
  const std::string task = f.at("task"), name = f.at("figure");
  figure.findings.push_back(Formatted(
      "In {}, {} is the most expensive part of {}: alone it changes {} by {}, and the whole plan by {}, of which {} is "
      "left over.",
      json.at("model").get<std::string>(), parts[0].at("part").get<std::string>(), plan.get<std::string>(),
      FigureOnText(task, name), SignedText(task, name, parts[0].at("alone")), SignedText(task, name, f.at("change")),
      SignedText(task, name, f.at("left_over"))));
}

// Whether that was measured; `tare compare` leaves it out.
bool HasTakenOut(const Json& json) {
  return std::ranges::any_of(json.at("figures"), [](const Json& f) {
    return std::ranges::any_of(f.at("parts"), [](const Json& part) { return !part.at("taken_out").is_null(); });
  });
}

// "layer and map" of "by": "layer,map".
std::string GrainWords(const Json& json) { return Replaced(json.value("by", "part"), ",", " and "); }

FigureData AttributionOf(const Json& json) {
  FigureData figure{
      .name = "attribution",
      .title = Formatted("Which {} of a plan costs what in {}", GrainWords(json), json.at("model").get<std::string>()),
      .caption =
          Formatted("Alone: change from the unquantized model with only that part quantized; {}left over: the whole "
                    "plan's change minus the sum of the parts alone. Units are each figure's own (divergence in nats "
                    "per token); thin bars are 95 % intervals, paired.",
                    HasTakenOut(json) ? "taken out: the whole plan's change minus the change without that part; " : ""),
      .table = EffectTable("part", "effect"),
      .drawn = {"change"}};
  std::vector<std::string> tasks;  // only the first figure of each is drawn
  for (const Json& f : json.at("figures")) {
    if (std::ranges::contains(tasks, f.at("task").get<std::string>())) continue;
    tasks.push_back(f.at("task"));
    AddParts(json, f, figure);
  }
  return figure;
}

}  // namespace

std::vector<FigureData> CostsOfSites(const Material& material) {
  std::vector<FigureData> figures;
  for (const Sweep& sweep : material.sweeps) figures.push_back(AttributionOf(sweep));
  material.ForEach("tare.attribution/1", [&](const Json& json) { figures.push_back(AttributionOf(json)); });
  return WithRows(figures);
}

}  // namespace tare
