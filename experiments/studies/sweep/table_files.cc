// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/table_files.h"

#include "experiments/text/csv.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
std::string OrEmpty(const std::optional<T>& value) {
  return value ? Formatted("{}", *value) : "";
}

std::string Ends(const std::optional<Interval>& interval) {
  return interval ? Formatted("{},{}", interval->low, interval->high) : std::string(",");
}

std::string CsvRow(const SweepCell& cell, size_t i, const Comparison* change, const Comparison* drop) {
  const Figure& figure = cell.figures.list[i];
  return Formatted("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", CsvField(cell.model), CsvField(cell.task),
                   CsvField(cell.row.site), CsvField(cell.row.format), CsvField(cell.row.granularity), cell.row.bits,
                   CsvField(cell.Plan()), cell.Executed() ? 1 : 0, figure.keys.name, figure.value,
                   OrEmpty(figure.error), Ends(figure.OfItems()), SizeCsv(change), cell.figures.count,
                   EvidenceCsv(change), drop == nullptr ? "" : CsvField(drop->against), SizeCsv(drop),
                   EvidenceCsv(drop));
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json ToJson(const Comparison& c, const char* figure) {
  Json json{{"figure", figure}};
  if (!c.against.empty()) json["against"] = c.against;
  json.update(ComparisonJson(c));
  return json;
}

}  // namespace

std::string SizeCsv(const Comparison* c) {
  return c == nullptr ? ",,," : Formatted("{},{},{}", c->value, OrEmpty(c->error), Ends(c->interval));
}

std::string EvidenceCsv(const Comparison* c) {
  if (c == nullptr) return ",,,,,";
  const std::string flips = c->items ? Formatted("{},{}", c->items->gained, c->items->lost) : ",";
  return Formatted("{},{},{},{},{}", flips, OrEmpty(c->p), OrEmpty(c->p_holm), OrEmpty(c->detectable),
                   OrEmpty(c->for_half));
}

Json ComparisonJson(const Comparison& c) {
  Json json{{"value", c.value}, {"stderr", OrNull(c.error)}};
  json["low"] = c.interval ? Json(c.interval->low) : Json();
  json["high"] = c.interval ? Json(c.interval->high) : Json();
  if (c.items) json.update({{"gained", c.items->gained}, {"lost", c.items->lost}});
  json.update({{"p", OrNull(c.p)},
               {"p_holm", OrNull(c.p_holm)},
               {"significant", c.Significant()},
               {"detectable", OrNull(c.detectable)},
               {"for_half", OrNull(c.for_half)}});
  if (c.items) json["too_few"] = c.TooFew();
  return json;
}

std::string SweepCsv(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  std::string text =
      "model,task,site,format,granularity,bits,plan,executed,figure,value,stderr,low,high,change,change_stderr,"
      "change_low,change_high,n,gained,lost,p,p_holm,detectable,for_half,against,difference,difference_stderr,"
      "difference_low,difference_high,difference_gained,difference_lost,difference_p,difference_p_holm,"
      "difference_detectable,difference_for_half\n";
  for (size_t c = 0; c < cells.size(); ++c) {
    for (size_t i = 0; i < cells[c].figures.list.size(); ++i)
      text += CsvRow(cells[c], i, Find(comparisons.changes, c, i), Find(comparisons.drops, c, i));
  }
  return text;
}

Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons, const Resampling& resampling) {
  Json json{{"schema", "tare.sweep/3"},
            {"level", 1 - kLevel},
            {"draws", resampling.draws},
            {"seed", resampling.seed},
            {"cells", Json::array()}};
  for (size_t c = 0; c < cells.size(); ++c) {
    const SweepCell& cell = cells[c];
    Json changes = Json::array(), differences = Json::array();
    for (size_t i = 0; i < cell.figures.list.size(); ++i) {
      const char* const figure = cell.figures.list[i].keys.name;
      if (const Comparison* change = Find(comparisons.changes, c, i)) changes.push_back(ToJson(*change, figure));
      if (const Comparison* drop = Find(comparisons.drops, c, i)) differences.push_back(ToJson(*drop, figure));
    }
    json["cells"].push_back({{"model", cell.model},
                             {"task", cell.task},
                             {"site", cell.row.site},
                             {"format", cell.row.format},
                             {"granularity", cell.row.granularity},
                             {"bits", cell.row.bits},
                             {"key", cell.key},
                             {"result", cell.result},
                             {"changes", changes},
                             {"differences", differences}});
  }
  return json;
}

}  // namespace tare
