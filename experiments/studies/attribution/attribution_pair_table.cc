// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_pair_table.h"

#include "experiments/studies/attribution/attribution_table.h"
#include "experiments/studies/sweep/table.h"
#include "experiments/studies/sweep/table_files.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

std::string PairLine(const std::string& part, const std::string& a, const std::string& b,
                     const std::string& difference) {
  std::string line = Formatted("  {:<18} {:>10}  {:>10}  {}", part, a, b, difference);
  line.resize(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string PairRow(const std::string& name, const PartPair& pair, const char* format) {
  const auto number = [&](const std::optional<double>& x) {
    return x ? NumberText(*x, Formatted("+{}", format)) : std::string("none");
  };
  return PairLine(name, number(pair.first), number(pair.second),
                  pair.difference ? ChangeWithEnds(*pair.difference, format) : "");
}

// Every row with the pair that it is of: the parts, then the whole plan.
template <typename Body>
void ForEachRow(const std::vector<AttributionPair>& pairs, Body body) {
  for (const AttributionPair& pair : pairs) {
    for (const PartPair& part : pair.parts) body(pair, part);
    body(pair, pair.whole);
  }
}

}  // namespace

std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models) {
  std::string text;
  for (const AttributionPair& pair : pairs) {
    const char* const format = pair.figure.in_tables;
    text += Formatted("\n{}, {}, of each part of {} alone\n  A: {}, B: {}\n", pair.task, pair.figure.name, plan,
                      models.at(0), models.at(1));
    text += PairLine("part", "A", "B", "B less A");
    for (const PartPair& part : pair.parts) text += PairRow(part.part, part, format);
    text += PairRow("the whole plan", pair.whole, format);
  }
  return text;
}

std::string AttributionPairCsv(const std::vector<AttributionPair>& pairs) {
  std::string text = "task,figure,part,first,second,value,stderr,low,high,gained,lost,p,p_holm,detectable,for_half\n";
  const auto number = [](const std::optional<double>& x) { return x ? Formatted("{}", *x) : std::string(); };
  ForEachRow(pairs, [&](const AttributionPair& pair, const PartPair& part) {
    const Comparison* const difference = part.difference ? &*part.difference : nullptr;
    text += Formatted("{},{},{},{},{},{},{}\n", CsvField(pair.task), pair.figure.name, CsvField(part.part),
                      number(part.first), number(part.second), SizeCsv(difference), EvidenceCsv(difference));
  });
  return text;
}

nlohmann::ordered_json AttributionPairJson(const std::vector<AttributionPair>& pairs) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  ForEachRow(pairs, [&](const AttributionPair& pair, const PartPair& part) {
    rows.push_back({{"task", pair.task},
                    {"figure", pair.figure.name},
                    {"part", part.part.empty() ? Json() : Json(part.part)},
                    {"first", number(part.first)},
                    {"second", number(part.second)},
                    {"difference", part.difference ? ComparisonJson(*part.difference) : Json()}});
  });
  return rows;
}

}  // namespace tare
