// SPDX-License-Identifier: Apache-2.0
// Columns of files, rows of figures and drops, columns for other studies, a sweep as CSV, JSON and text, its legends.
#include "experiments/studies/sweep/comparison.h"

#include <algorithm>
#include <ranges>

#include "quant/base/message.h"
#include "quant/plan/presets.h"

namespace tare {
namespace {

Columns<SweepCell> CellColumns() {
  return {{{"model"}, &SweepCell::model},
          {{"task"}, &SweepCell::task},
          {{"site"}, [](const SweepCell& c) { return c.row.site; }},
          {{"format"}, [](const SweepCell& c) { return c.row.format; }},
          {{"granularity"}, [](const SweepCell& c) { return c.row.granularity; }},
          {{"bits"},
           [](const SweepCell& c) { return c.AsStored() && c.version ? AsJson(c.version->Bits()) : Json(c.row.bits); }},
          {{"key_bits"}, [](const SweepCell& c) { return c.result.value("key_bits", Lacking()); }},
          {{"value_bits"}, [](const SweepCell& c) { return c.result.value("value_bits", Lacking()); }},
          {{"preset"}, [](const SweepCell& c) { return PresetJson(c.Plan()); }}};
}

Columns<Comparison> EquivalenceColumns(double margin) {
  Columns<Comparison> columns{{{"margin"}, [margin](const Comparison&) { return margin; }},
                              {{"verdict"}, [margin](const Comparison& c) { return VerdictAt(margin, c); }}};
  AddPart(columns, "", IntervalColumns(), &Comparison::loss);
  return columns;
}

// margin: of equivalence; 0: without its columns.
Columns<SweepFigure> SweepColumns(double margin) {
  Columns<SweepFigure> columns;
  AddPart(columns, "", CellColumns(), &SweepFigure::cell);
  columns.insert(columns.end(), {{{"plan"}, [](const SweepFigure& f) { return f.cell->ShownPlan(); }},
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
  if (margin > 0)
    AddPart(columns, "equivalence", EquivalenceColumns(margin),
            [](const SweepFigure& f) { return f.change && f.change->primary ? f.change : nullptr; });
  return columns;
}

Json ToJson(const Comparison& c, const char* figure, double margin = 0) {
  Json json{{"figure", figure}, {"primary", c.primary}};
  if (!c.against.empty()) json["against"] = c.against;
  json.update(ComparisonJson(c));
  if (margin > 0 && c.primary) json["equivalence"] = RowOf(EquivalenceColumns(margin), c);
  return json;
}

Table PlanRows(const char* rows, const char* value, const char* change) {
  return {.columns = {Left("plan", rows, 26), Left("value", value, 22), Left("change", change, 26)}};
}

std::string PlanText(const SweepCell& cell) {
  const std::string plan(ShownName(cell.Plan()));
  return (plan == "f32" ? "unquantized" : plan) + (cell.Executed() ? " executed" : "") +
         (cell.row.looks_ahead ? " ^" : "");
}

// A row's name: its plan, or, for a version of a source, the version's name and its plan, if it has one.
std::string RowText(const SweepCell& cell) {
  if (cell.Source().empty()) return PlanText(cell);
  return cell.model + (cell.Plan() == "f32" ? "" : " " + PlanText(cell));
}

// "  a true change of 0.077 to 0.12 shows (p < 0.05) in 4 runs of 5;
//   half of it needs 204 to 390 items".
std::string PowerText(const std::vector<const Comparison*>& changes, const char* format) {
  std::vector<double> sizes, halves;
  for (const Comparison* c : changes) {
    if (c == nullptr || !c->items) continue;
    sizes.push_back(*c->detectable);
    halves.push_back(static_cast<double>(*c->for_half));
  }
  if (sizes.empty()) return "";
  const auto range = [](const std::vector<double>& values, const char* shown) {
    const std::string least = NumberText(std::ranges::min(values), shown),
                      most = NumberText(std::ranges::max(values), shown);
    return least == most ? least : least + " to " + most;
  };
  return Formatted("  a true change of {} shows (p < 0.05) in 4 runs of 5;\n  half of it needs {} items\n",
                   range(sizes, format), range(halves, ".0f"));
}

// The lines on how cells were measured that all rows have: the others are true of one cell.
std::string HowAllMeasured(const std::vector<SweepFigure>& rows) {
  const auto lines_of = [](const SweepFigure& row) {
    return HowMeasured(row.cell->result, *row.cell->kind) | std::views::split('\n') |
           std::ranges::to<std::vector<std::string>>();
  };
  std::vector<std::string> shared = lines_of(rows.front());
  for (const SweepFigure& row : rows)
    std::erase_if(shared,
                  [lines = lines_of(row)](const std::string& line) { return !std::ranges::contains(lines, line); });
  return shared.empty() ? "" : Formatted("  {}\n", Listed(shared, "\n"));
}

// "-" for what the others diverge from: from itself by 0, without an error.
std::string ValueText(const SweepFigure& row, const char* format) {
  const bool is_source = row.change == nullptr && row.cell->row.exact && row.figure->keys.of_same == row.figure->value;
  return is_source ? "-" : FigureText(*row.figure, format);
}

std::string ModelRows(const std::vector<SweepFigure>& rows, double margin) {
  const SweepFigure& first = rows.front();
  const char* const format = first.figure->keys.in_tables;
  const std::string source = first.cell->Source();
  Table table = source.empty() ? PlanRows("plan", first.figure->keys.name, "change from unquantized")
                               : PlanRows("version", first.figure->keys.name, "change");
  std::vector<const Comparison*> changes;
  bool quantized = false;
  std::string note;
  for (const SweepFigure& row : rows) {
    quantized = quantized || !row.cell->row.exact;
    table.Add(
        {RowText(*row.cell), ValueText(row, format), row.change != nullptr ? ComparisonText(*row.change, format) : ""});
    changes.push_back(row.change);
    if (margin > 0 && row.change != nullptr && row.change->primary)
      table.rows.back()["equivalence"] = EquivalenceText(margin, *row.change, row.figure->keys);
    if (row.cell->SawInput())
      note += Formatted("  {} was calibrated on this text: other texts may lose more\n", row.cell->model);
  }
  const std::string title = source.empty() ? first.cell->model : "change: from " + source;
  if (std::ranges::count(changes, nullptr) == std::ssize(changes)) {
    table.columns.pop_back();
    if (quantized) note = "  no changes: the unquantized model was not run; try 16 in --bits, or plan f32\n";
  }
  table.columns.push_back({.name = "equivalence", .side = Side::kBelow});
  return Formatted("\n{}\n{}", title, HowAllMeasured(rows)) + TableText(table, 2) + note + PowerText(changes, format);
}

struct TabledFigure {
  const FigureKeys* keys;
  std::string title;  // its name, and what it is where the name says too little
};

// The figures of a task's tables. Accuracies that find the same items right in all cells have one, the primary one's.
std::vector<TabledFigure> TabledFigures(const std::vector<SweepFigure>& of_task) {
  const SweepCell& cell = *of_task.front().cell;
  const Figure& primary = cell.figures.list[cell.figures.Primary()];
  std::vector<TabledFigure> tabled;
  std::vector<std::string> right;
  for (const FigureKeys& keys : cell.kind->figures) {
    if (keys.in_tables == nullptr) continue;
    std::string outcomes;
    for (const SweepFigure& f : of_task) {
      if (std::string_view(f.figure->keys.name) == keys.name) outcomes += f.figure->outcomes + ";";
    }
    const auto same = keys.outcomes != nullptr ? std::ranges::find(right, outcomes) : right.end();
    if (same == right.end()) {
      tabled.push_back({&keys, keys.what == nullptr ? keys.name : Formatted("{}\n  {}", keys.name, keys.what)});
      right.push_back(outcomes);
      continue;
    }
    TabledFigure& one = tabled[static_cast<size_t>(same - right.begin())];
    one.title = Formatted("{} and {}\n  the same items are right by both", one.keys->name, keys.name);
    if (std::string_view(primary.keys.name) == keys.name) one.keys = &keys;
  }
  return tabled;
}

// How much more figures changed than those of the first model, or of versions of equally many bits.
std::string DropRows(const std::vector<SweepFigure>& differences) {
  std::string text;
  for (const std::string& against : Distinct(differences, [](const SweepFigure& row) { return row.drop->against; })) {
    std::vector<SweepFigure> rows = differences;
    std::erase_if(rows, [&](const SweepFigure& row) { return row.drop->against != against; });
    const bool versions = !rows.front().cell->Source().empty();
    Table table = PlanRows(versions ? "version" : "plan", "the changes", "difference");
    for (const SweepFigure& row : rows) {
      const char* const format = row.figure->keys.in_tables;
      const auto number = [&](double x) { return NumberText(x, Formatted("+{}", format)); };
      table.Add({RowText(*row.cell), number(row.change->value) + ", " + number(row.change->value - row.drop->value),
                 ComparisonText(*row.drop, format)});
    }
    text += Formatted("\nchange of {} minus that of {}\n", versions ? "each" : rows.front().cell->model, against) +
            TableText(table, 2);
  }
  return text;
}

}  // namespace

Json PresetJson(const std::string& plan) {
  const std::string_view name = PresetName(plan.substr(0, plan.find(' ')));
  return name.empty() ? Lacking() : Json(name);
}

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
  return TableCsv(TableOf(SweepColumns(comparisons.margin), FiguresOf(cells, comparisons)));
}

Json SweepJson(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  Json json{{"schema", "tare.sweep/3"}, {"level", 1 - kLevel}, {"cells", Json::array()}};
  if (comparisons.margin > 0) json["margin"] = comparisons.margin;
  for (size_t c = 0; c < cells.size(); ++c) {
    const SweepCell& cell = cells[c];
    const auto list = [&](const std::vector<Comparison>& all, double margin) {
      Json own = Json::array();
      for (const Comparison& one : all) {
        if (one.cell == c) own.push_back(ToJson(one, cell.figures.list[one.figure].keys.name, margin));
      }
      return own;
    };
    Json& object = json["cells"].emplace_back(RowOf(CellColumns(), cell));
    object.update({{"key", cell.key},
                   {"result", cell.result},
                   {"changes", list(comparisons.changes, comparisons.margin)},
                   {"differences", list(comparisons.drops, 0)}});
  }
  return json;
}

std::string ComparisonText(const Comparison& c, const char* format) {
  const std::string with_sign = Formatted("+{}", format);
  std::string text = NumberText(c.value, with_sign);
  if (c.interval && (!c.primary || (c.items && c.items->gained + c.items->lost < kFewItems))) {
    text = WithInterval(c.value, *c.interval, with_sign);
  } else if (c.error) {
    text = WithError(c.value, *c.error, with_sign);
  }
  return text + (c.Significant() ? " *" : c.TooFew() ? " ?" : "");
}

std::string SweepTable(const std::vector<SweepCell>& cells, const Comparisons& comparisons) {
  const std::vector<SweepFigure> all = FiguresOf(cells, comparisons), differences = DifferencesOf(cells, comparisons);
  // Tables group rows by model; all versions of one model form one group.
  const auto group = [](const SweepCell& c) { return c.Source().empty() ? c.model : c.Source(); };
  const auto groups = Distinct(cells, group);
  std::string text;
  for (const auto& task : Distinct(cells, [](const SweepCell& c) { return c.task; })) {
    std::vector<SweepFigure> of_task = all;
    std::erase_if(of_task, [&](const SweepFigure& f) { return f.cell->task != task; });
    for (const auto& [keys, title] : TabledFigures(of_task)) {
      text += Formatted("\n{}, {}\n", task, title);
      std::string drops;
      for (const auto& name : groups) {
        const auto rows_of = [&](std::vector<SweepFigure> rows) {
          std::erase_if(rows, [&](const SweepFigure& f) {
            return f.cell->task != task || group(*f.cell) != name ||
                   std::string_view(f.figure->keys.name) != keys->name;
          });
          return rows;
        };
        if (const std::vector<SweepFigure> rows = rows_of(all); !rows.empty())
          text += ModelRows(rows, comparisons.margin);
        drops += DropRows(rows_of(differences));
      }
      text += drops;
    }
  }
  return text;
}

std::string MarksLegend(const std::vector<const Comparison*>& of) {
  const auto any = [&](auto is) { return std::ranges::any_of(of, is); };
  const auto untested = [](const Comparison* c) { return c->primary && c->error.value_or(0) > 0 && !c->p; };
  std::string text =
      any(&Comparison::TooFew) ? "? too few items: with four changed items, no change can be significant\n" : "";
  if (any(untested)) text += "no star for a divergence's change from 0: it cannot be 0, so there is no test\n";
  if (any(&Comparison::few_units))
    text += "no errors of fewer than 20 windows or samples: try more tokens, a shorter\n--window, or more items\n";
  return text;
}

std::string SweepLegend(const Comparisons& comparisons) {
  std::string text =
      "+/- one standard error, where a report has 95 %; of a change by pairs of items,\n"
      "samples (if items share one) or windows; [low, high] 95 %, if fewer than five\n"
      "items are right, wrong or changed, and of other figures than a task's primary\n";
  std::vector<const Comparison*> all;
  for (const auto* list : {&comparisons.changes, &comparisons.drops}) {
    for (const Comparison& c : *list) all.push_back(&c);
  }
  if (std::ranges::any_of(all, [](const Comparison* c) { return c->interval && !c->items; }))
    text +=
        "an interval of few windows is longer than two errors either way, and uneven if\n"
        "they are skewed: CSV, JSON and report have both ends\n";
  const auto holm = [](const std::vector<Comparison>& list) {
    return std::ranges::count_if(list, [](const Comparison& c) { return c.p_holm.has_value(); });
  };
  std::vector<std::string> tested;
  if (const auto changes = holm(comparisons.changes)) tested.push_back(Counted(changes, "change"));
  if (const auto drops = holm(comparisons.drops)) tested.push_back(Counted(drops, "difference"));
  if (!tested.empty())
    text += Formatted(
        "* significant: p < 0.05 after Holm over {},\n"
        "of each task's primary figure; the others are not tested\n",
        Listed(tested, ", and "));
  if (comparisons.margin > 0)
    text +=
        "lossless: by two one-sided tests at 5 %; in brackets 90 % of the loss, in the\n"
        "margin's unit; no star does not show that a change is small\n";
  if (comparisons.recipes)
    text +=
        "recipes follow public code as closely as plan rules can, weights rounded to\n"
        "nearest: tare plan NAME says what differs\n";
  if (comparisons.look_ahead) text += "^ lookahead: a scale may span later tokens than the query\n";
  text += MarksLegend(all);
  if (!comparisons.drops.empty())
    text += comparisons.of_source.empty()
                ? "one pair of models is one sample of training: differences apply to these two\n"
                : "changes are from " + comparisons.of_source +
                      ",\ndifferences from versions of equally many bits, else from the first of all\n";
  return text;
}

}  // namespace tare
