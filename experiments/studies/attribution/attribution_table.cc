// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_table.h"

#include <algorithm>

#include "experiments/studies/sweep/table.h"
#include "experiments/studies/sweep/table_files.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPartWidth = 20, kAloneWidth = 36;

std::string Line(const std::string& part, const std::string& alone, const std::string& taken_out = "") {
  std::string text;
  if (part.size() >= kPartWidth - 1) text = "  " + part + "\n";
  std::string line =
      Formatted("  {:<{}}{:<{}}{}", text.empty() ? part : "", kPartWidth - 2, alone, kAloneWidth, taken_out);
  line.resize(line.find_last_not_of(' ') + 1);
  return text + line + "\n";
}

std::string FigureTable(const Attribution& a) {
  const char* const format = a.figure.in_tables;
  std::string text = Formatted("\n{}, {}\n  f32 {}, the whole plan {}\n", a.task, a.figure.name,
                               NumberText(a.baseline, format), NumberText(a.whole, format));
  text += Line("part", "alone", "taken out");
  for (const PartEffect& p : a.parts)
    text += Line(p.part.name, ChangeWithEnds(p.alone, format), ComparisonText(p.taken_out, format));
  text += Line("sum of alone", ChangeWithEnds(a.sum, format));
  text += Line("left over", ChangeWithEnds(a.left_over, format));
  return text + Line("the whole plan", ChangeWithEnds(a.change, format));
}

// Every comparison with its effect's name, the part's (or none) and the plan that it is of.
template <typename Body>
void ForEachEffect(const Attribution& a, const Plan& plan, Body body) {
  body("plan", "", plan.canonical(), a.change);
  for (const PartEffect& p : a.parts) {
    body("alone", p.part.name, p.part.alone.canonical(), p.alone);
    body("taken_out", p.part.name, p.part.without.canonical(), p.taken_out);
  }
  body("sum", "", plan.canonical(), a.sum);
  body("left_over", "", plan.canonical(), a.left_over);
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
  std::vector<Comparison> all;
  for (const Attribution& a : attributions) {
    ForEachEffect(a, Plan(), [&](auto, auto, auto, const Comparison& c) { all.push_back(c); });
  }
  std::string text =
      "alone: the part quantized and all else exact; taken out: the plan less the plan\n"
      "without the part; left over: the whole plan's change less the sum of alone.\n"
      "[low, high] 95 %; +/- one standard error, paired by item or by window\n";
  const auto tested = std::ranges::count_if(all, [](const Comparison& c) { return c.p_holm.has_value(); });
  if (tested > 0) text += Formatted("* significant: p < 0.05 after Holm over {} changes\n", tested);
  if (std::ranges::any_of(all, [](const Comparison& c) { return c.TooFew(); }))
    text += "? too few items: five that change cannot be significant, whichever way\n";
  return text;
}

std::string AttributionCsv(const std::vector<Attribution>& attributions, const Plan& plan) {
  std::string text = "task,figure,effect,part,plan,value,stderr,low,high,gained,lost,p,p_holm,detectable,for_half\n";
  for (const Attribution& a : attributions) {
    ForEachEffect(a, plan,
                  [&](const char* effect, const std::string& part, const std::string& of, const Comparison& c) {
                    text += Formatted("{},{},{},{},{},{},{}\n", CsvField(a.task), a.figure.name, effect, CsvField(part),
                                      CsvField(of), SizeCsv(&c), EvidenceCsv(&c));
                  });
  }
  return text;
}

Json AttributionJson(const std::vector<Attribution>& attributions, const std::string& model, const Plan& plan,
                     const std::string& by, const Resampling& resampling) {
  Json json{{"schema", "tare.attribution/1"},
            {"model", model},
            {"plan", plan.canonical()},
            {"by", by},
            {"level", 1 - kLevel},
            {"draws", resampling.draws},
            {"seed", resampling.seed},
            {"figures", Json::array()}};
  for (const Attribution& a : attributions) {
    Json parts = Json::array();
    for (const PartEffect& p : a.parts) {
      parts.push_back({{"part", p.part.name},
                       {"alone_plan", p.part.alone.canonical()},
                       {"without_plan", p.part.without.canonical()},
                       {"alone", ComparisonJson(p.alone)},
                       {"taken_out", ComparisonJson(p.taken_out)}});
    }
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

}  // namespace tare
