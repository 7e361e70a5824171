// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_pair_table.h"

#include <span>

#include "experiments/studies/attribution/attribution_table.h"
#include "experiments/studies/sweep/table_files.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"

namespace tare {
namespace {

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

std::string AttributionPairTable(const std::vector<AttributionPair>& pairs, const std::string& plan,
                                 const std::vector<std::string>& models) {
  std::string text;
  for (const AttributionPair& pair : pairs) {
    const char* const format = pair.figure.in_tables;
    const auto number = [&](const std::optional<double>& x) {
      return x ? NumberText(*x, Formatted("+{}", format)) : std::string("none");
    };
    Table table{.columns = {{.name = "part", .title = "part", .side = Side::kLeft, .width = 17},
                            {.name = "first", .title = "A", .width = 10},
                            {.name = "second", .title = "B", .width = 10},
                            {.name = "difference", .title = "B less A", .side = Side::kLeft, .width = 34}}};
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
