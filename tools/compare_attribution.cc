// SPDX-License-Identifier: Apache-2.0
#include "tools/compare_attribution.h"

#include <algorithm>

#include "experiments/studies/attribution/attribution_table.h"
#include "experiments/tasks/divergence.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_file.h"
#include "quant/file/folder_lock.h"

namespace tare {
namespace {

AttributionResult RunOne(ModelAttribution& model) {
  OutputsIn(model.options.sweep.folder, {});
  const OutputFolder folder(model.options.sweep.folder);
  const std::vector<AtomicFile> claims = ClaimAttribution(model.options);
  return WriteAttribution(model.options, model.question, RunCells(model.options));
}

std::string PairLegend(const std::vector<AttributionPair>& pairs) {
  std::string text =
      "\nA, B: change from f32 with only that part quantized; B minus A:\n"
      "[low, high] 95 %, paired by window\n";
  size_t tested = 0;
  for (const AttributionPair& pair : pairs) {
    tested += pair.whole.difference->p_holm ? 1 : 0;
    tested += static_cast<size_t>(std::ranges::count_if(
        pair.parts, [](const PartPair& part) { return part.difference && part.difference->p_holm; }));
  }
  if (tested > 0) text += Formatted("* significant: p < 0.05 after Holm over {} differences\n", tested);
  return text;
}

}  // namespace

std::vector<ModelAttribution> AskBoth(const CellsCommand& compare, const std::filesystem::path& text,
                                      const std::string& plan, int64_t tokens) {
  std::vector<ModelAttribution> both;
  for (size_t i = 0; i < 2; ++i) {
    ModelAttribution& one = both.emplace_back(ModelAttribution{.options = compare, .question = {}});
    one.options.models = {compare.models.at(i)};
    if (!compare.statistics.empty()) one.options.statistics = {compare.statistics.at(i)};
    one.options.json.clear();
    SweepOptions& sweep = one.options.sweep;
    sweep.folder = compare.sweep.folder / (i == 0 ? "attribution-A" : "attribution-B");
    sweep.question = {};
    sweep.carrying = Carrying::kSimulated;
    sweep.tasks = {{&kDivergenceTask, text}};
    sweep.windows.tokens = sweep.windows.tokens == 0 ? tokens : std::min(tokens, sweep.windows.tokens);
    one.question = AskAttribution(one.options, plan, "site");
  }
  return both;
}

ComparedAttribution RunBoth(std::vector<ModelAttribution>& both, const std::string& plan,
                            const std::filesystem::path& folder) {
  const AttributionResult a = RunOne(both.at(0)), b = RunOne(both.at(1));
  const std::vector<AttributionPair> pairs =
      PairAttributions(a.model, b.model, both[0].question.plan, both[0].options.resampling);
  WriteFileAtomically(folder / "attribution.csv", AttributionPairCsv(pairs));
  return {.table = AttributionPairTable(pairs, plan, {a.json.at("model"), b.json.at("model")}),
          .legend = PairLegend(pairs),
          .json = {{"plan", both[0].question.plan.canonical()},
                   {"tokens", both[0].options.sweep.windows.tokens},
                   {"models", {a.json, b.json}},
                   {"differences", AttributionPairJson(pairs)}}};
}

}  // namespace tare
