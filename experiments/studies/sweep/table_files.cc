// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/table_files.h"

#include "quant/file/json_value.h"

namespace tare {
namespace {

Columns<SweepCell> CellColumns() {
  return {{{"model"}, &SweepCell::model},
          {{"task"}, &SweepCell::task},
          {{"site"}, [](const SweepCell& c) { return c.row.site; }},
          {{"format"}, [](const SweepCell& c) { return c.row.format; }},
          {{"granularity"}, [](const SweepCell& c) { return c.row.granularity; }},
          {{"bits"}, [](const SweepCell& c) { return c.row.bits; }}};
}

Columns<SweepFigure> SweepColumns() {
  Columns<SweepFigure> columns;
  AddPart(columns, "", CellColumns(), &SweepFigure::cell);
  columns.insert(columns.end(), {{{"plan"}, [](const SweepFigure& f) { return f.cell->Plan(); }},
                                 {{"executed"}, [](const SweepFigure& f) { return f.cell->Executed() ? 1 : 0; }},
                                 {{"figure"}, [](const SweepFigure& f) { return f.figure->keys.name; }},
                                 {{"value"}, [](const SweepFigure& f) { return f.figure->value; }},
                                 {{"stderr"}, [](const SweepFigure& f) { return f.figure->error; }}});
  AddPart(columns, "", IntervalColumns(), [](const SweepFigure& f) { return f.figure->OfItems(); });
  AddPart(columns, "change", SizeColumns(), &SweepFigure::change);
  columns.push_back({{"n"}, [](const SweepFigure& f) { return f.cell->figures.count; }});
  AddPart(columns, "", EvidenceColumns(), &SweepFigure::change);
  columns.push_back({{"against"}, [](const SweepFigure& f) { return f.drop ? f.drop->against : ""; }});
  AddPart(columns, "difference", SizeColumns(), &SweepFigure::drop);
  AddPart(columns, "difference", EvidenceColumns(), &SweepFigure::drop);
  return columns;
}

Json ToJson(const Comparison& c, const char* figure) {
  Json json{{"figure", figure}};
  if (!c.against.empty()) json["against"] = c.against;
  json.update(ComparisonJson(c));
  return json;
}

}  // namespace

Columns<Interval> IntervalColumns() { return {{{"low"}, &Interval::low}, {{"high"}, &Interval::high}}; }

Columns<Comparison> SizeColumns() {
  Columns<Comparison> columns{{{"value"}, &Comparison::value}, {{"stderr"}, &Comparison::error}};
  AddPart(columns, "", IntervalColumns(), &Comparison::interval);
  return columns;
}

Columns<Comparison> EvidenceColumns() {
  const auto of_items = [](auto get) {
    return [get](const Comparison& c) { return c.items ? Json(get(c)) : Lacking(); };
  };
  return {{{"gained"}, of_items([](const Comparison& c) { return c.items->gained; })},
          {{"lost"}, of_items([](const Comparison& c) { return c.items->lost; })},
          {{"p"}, &Comparison::p},
          {{"p_holm"}, &Comparison::p_holm},
          {{.name = "significant", .files = Files::kJson}, &Comparison::Significant},
          {{"detectable"}, &Comparison::detectable},
          {{"for_half"}, &Comparison::for_half},
          {{.name = "too_few", .files = Files::kJson}, of_items([](const Comparison& c) { return c.TooFew(); })}};
}

Json ComparisonJson(const Comparison& c) {
  Json json = RowOf(SizeColumns(), c);
  json.update(RowOf(EvidenceColumns(), c));
  return json;
}

std::string SweepCsv(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  return TableCsv(TableOf(SweepColumns(), FiguresOf(cells, comparisons)));
}

Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons, const Resampling& resampling) {
  Json json{{"schema", "tare.sweep/3"},
            {"level", 1 - kLevel},
            {"draws", resampling.draws},
            {"seed", resampling.seed},
            {"cells", Json::array()}};
  const std::vector<SweepFigure> figures = FiguresOf(cells, comparisons);
  for (const SweepCell& cell : cells) {
    Json changes = Json::array(), differences = Json::array();
    for (const SweepFigure& f : figures) {
      if (f.cell != &cell) continue;
      if (f.change != nullptr) changes.push_back(ToJson(*f.change, f.figure->keys.name));
      if (f.drop != nullptr) differences.push_back(ToJson(*f.drop, f.figure->keys.name));
    }
    Json& object = json["cells"].emplace_back(RowOf(CellColumns(), cell));
    object.update({{"key", cell.key}, {"result", cell.result}, {"changes", changes}, {"differences", differences}});
  }
  return json;
}

}  // namespace tare
