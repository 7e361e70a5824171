// SPDX-License-Identifier: Apache-2.0
// Rows of figures, effects and pairs of models; attributions, then pairs, as text, legend, CSV and JSON.
#include "experiments/studies/attribution/attribution.h"

#include <algorithm>
#include <ranges>
#include <span>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

std::string FigureTable(const Attribution& a) {
  const char* const format = a.figure.in_tables;
  Table table{.columns = {Left("part", "part", 16), Left("alone", "alone", 34)}};
  if (std::ranges::any_of(a.parts, [](const PartEffect& p) { return p.taken_out.has_value(); }))
    table.columns.push_back(Left("taken_out", "taken out", 24));
  const auto add = [&](const std::string& name, const Comparison& alone, const std::optional<Comparison>& taken_out) {
    Json& row = table.rows.emplace_back(Json{{"part", name}, {"alone", ChangeWithEnds(alone, format)}});
    if (taken_out) row["taken_out"] = ComparisonText(*taken_out, format);
  };
  for (const PartEffect& p : a.parts) add(p.part.name, p.alone, p.taken_out);
  add("sum of alone", a.sum, {});
  add("left over", a.left_over, {});
  add("the whole plan", a.change, {});
  return Formatted("\n{}, {}\n  unquantized {}, the whole plan {}\n", a.task, a.figure.name,
                   NumberText(a.baseline, format), NumberText(a.whole, format)) +
         TableText(table, 2);
}

// A comparison with its part (or none) and its plan.
struct Effect {
  std::string task, figure;
  const char* effect;
  std::string part, plan;
  const Comparison* of;
};

std::vector<Effect> EffectsOf(const std::vector<Attribution>& attributions, const Plan& plan) {
  std::vector<Effect> effects;
  for (const Attribution& a : attributions) {
    const auto add = [&](const char* effect, const std::string& part, const Plan& of, const Comparison& c) {
      effects.push_back({a.task, a.figure.name, effect, part, of.canonical(), &c});
    };
    add("plan", "", plan, a.change);
    for (const PartEffect& p : a.parts) {
      add("alone", p.part.name, p.part.alone, p.alone);
      if (p.taken_out) add("taken_out", p.part.name, p.part.without, *p.taken_out);
    }
    add("sum", "", plan, a.sum);
    add("left_over", "", plan, a.left_over);
  }
  return effects;
}

// A part of a pair, or its whole plan.
struct PairRow {
  const AttributionPair* pair;
  const PartPair* part;
};

// The rows point into the pairs.
std::vector<PairRow> RowsOf(std::span<const AttributionPair> pairs) {
  std::vector<PairRow> rows;
  for (const AttributionPair& pair : pairs) {
    for (const PartPair& part : pair.parts) rows.push_back({&pair, &part});
    rows.push_back({&pair, &pair.whole});
  }
  return rows;
}

Columns<PairRow> PairColumns() {
  return {{{"task"}, [](const PairRow& r) { return r.pair->task; }},
          {{"figure"}, [](const PairRow& r) { return r.pair->figure.name; }},
          {{"part"}, [](const PairRow& r) { return r.part->part.empty() ? Json() : Json(r.part->part); }},
          {{"first"}, [](const PairRow& r) { return r.part->first; }},
          {{"second"}, [](const PairRow& r) { return r.part->second; }}};
}

}  // namespace

std::string ChangeWithEnds(const Comparison& c, const char* format) {
  if (!c.interval) return ComparisonText(c, format);
  return WithInterval(c.value, *c.interval, Formatted("+{}", format)) + (c.Significant() ? " *"
                                                                         : c.TooFew()    ? " ?"
                                                                                         : "");
}

std::string AttributionTable(const std::vector<Attribution>& attributions) {
  std::string text;
  for (const Attribution& a : attributions) {
    if (a.figure.in_tables != nullptr) text += FigureTable(a);
  }
  return text;
}

std::string AttributionLegend(const std::vector<Attribution>& attributions) {
  const std::vector<Effect> all = EffectsOf(attributions, Plan());
  std::string text =
      std::string(kPartsLegend) + "[low, high] 95 %; +/- one standard error, paired by item or by window\n";
  const auto tested = std::ranges::count_if(all, [](const Effect& e) { return e.of->p_holm.has_value(); });
  if (tested > 0)
    text += Formatted(
        "* significant: p < 0.05 after Holm over {} of each task's primary\n"
        "figure; the others are not tested\n",
        Counted(tested, "change"));
  return text + MarksLegend(all | std::views::transform(&Effect::of) | std::ranges::to<std::vector>());
}

std::string AttributionCsv(const std::vector<Attribution>& attributions, const Plan& plan) {
  Columns<Effect> columns{{{"task"}, &Effect::task},
                          {{"figure"}, &Effect::figure},
                          {{"effect"}, &Effect::effect},
                          {{"part"}, &Effect::part},
                          {{"plan"}, &Effect::plan}};
  AddPart(columns, "", SizeColumns(), &Effect::of);
  AddPart(columns, "", EvidenceColumns(), &Effect::of);
  return TableCsv(TableOf(columns, EffectsOf(attributions, plan)));
}

Json AttributionJson(const std::vector<Attribution>& attributions, const std::string& model, const Plan& plan,
                     const std::string& by) {
  Json json{
      {"schema", "tare.attribution/1"}, {"model", model}, {"plan", plan.canonical()}, {"by", by}, {"level", 1 - kLevel},
      {"figures", Json::array()}};
  for (const Attribution& a : attributions) {
    Json parts = Json::array();
    for (const PartEffect& p : a.parts)
      parts.push_back({{"part", p.part.name},
                       {"alone_plan", p.part.alone.canonical()},
                       {"without_plan", p.part.without.canonical()},
                       {"alone", ComparisonJson(p.alone)},
                       {"taken_out", p.taken_out ? ComparisonJson(*p.taken_out) : Json()}});
    json["figures"].push_back({{"task", a.task},
                               {"figure", a.figure.name},
                               {"n", a.count},
                               {"baseline", a.baseline},
                               {"whole", a.whole},
                               {"change", ComparisonJson(a.change)},
                               {"parts", parts},
                               {"sum", ComparisonJson(a.sum)},
                               {"left_over", ComparisonJson(a.left_over)}});
  }
  return json;
}

std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models) {
  std::string text;
  for (const AttributionPair& pair : pairs) {
    const char* const format = pair.figure.in_tables;
    const auto number = [&](const std::optional<double>& x) {
      return x ? NumberText(*x, Formatted("+{}", format)) : std::string("none");
    };
    Table table{.columns = {Left("part", "part", 17),
                            {.name = "first", .title = "A", .width = 10},
                            {.name = "second", .title = "B", .width = 10},
                            Left("difference", "B minus A", 34)}};
    for (const PairRow& row : RowsOf({&pair, 1})) {
      const PartPair& part = *row.part;
      table.Add({part.part.empty() ? "the whole plan" : part.part, number(part.first), number(part.second),
                 part.difference ? ChangeWithEnds(*part.difference, format) : ""});
    }
    text += Formatted("\n{}, {}, of each part of {} alone\n  A: {}, B: {}\n", pair.task, pair.figure.name, plan,
                      models.at(0), models.at(1)) +
            TableText(table, 2);
  }
  return text;
}

std::string AttributionPairLegend(const std::vector<AttributionPair>& pairs) {
  std::string text =
      "\nA, B: change from unquantized with only that part quantized; B minus A:\n"
      "[low, high] 95 %, paired by window\n";
  std::vector<const Comparison*> differences;
  for (const PairRow& row : RowsOf(pairs)) {
    if (row.part->difference) differences.push_back(&*row.part->difference);
  }
  const auto tested = std::ranges::count_if(differences, [](const Comparison* c) { return c->p_holm.has_value(); });
  if (tested > 0) text += Formatted("* significant: p < 0.05 after Holm over {}\n", Counted(tested, "difference"));
  return text + MarksLegend(differences);
}

std::string AttributionPairCsv(const std::vector<AttributionPair>& pairs) {
  Columns<PairRow> columns = PairColumns();
  const auto difference = [](const PairRow& r) { return r.part->difference; };
  AddPart(columns, "", SizeColumns(), difference);
  AddPart(columns, "", EvidenceColumns(), difference);
  return TableCsv(TableOf(columns, RowsOf(pairs)));
}

Json AttributionPairJson(const std::vector<AttributionPair>& pairs) {
  Columns<PairRow> columns = PairColumns();
  columns.push_back({{"difference"}, [](const PairRow& r) {
                       return r.part->difference ? ComparisonJson(*r.part->difference) : Json();
                     }});
  return TableJson(TableOf(columns, RowsOf(pairs)));
}

}  // namespace tare
