// SPDX-License-Identifier: Apache-2.0
// Divergence by the number of context tokens, from `tare eval --tasks divergence=TEXT`.
#include "experiments/report/figures/figures.h"
#include "experiments/report/figures/sentences.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

void AddTask(const Json& evaluation, const Json& task, FigureData& figure) {
  const std::string of = EvaluatedName(evaluation);
  for (const Json& range : task.at("by_context")) {
    const int64_t first = range.at("first"), last = range.at("last");
    const double kld = NumberAt(range, "kld");
    if (kld <= 0)
      figure.missing.push_back(Formatted("{}, context {}: a log axis cannot show {}", of, RangeName(first, last), kld));
    figure.table.Add({of, first, last, NumberOrNull(kld), range.at("perplexity_ratio"), range.at("tokens")});
  }
  if (task.at("by_context").empty()) return;
  const Json& first = task["by_context"].front();
  const Json& last = task["by_context"].back();
  const double error = task.contains("kld_stderr") ? NumberAt(task, "kld_stderr") : NAN;
  figure.findings.push_back(
      Formatted("The predictions of {} diverge by {} nats per token: by {:.3g} with {} of context, and by {:.3g} with "
                "{}.",
                EvaluatedText(evaluation), EstimateText(NumberAt(task, "kld"), error), NumberAt(first, "kld"),
                ContextText(first), NumberAt(last, "kld"), ContextText(last)));
}

}  // namespace

std::vector<FigureData> Positions(const Material& material) {
  FigureData figure{.name = "positions",
                    .title = "Divergence by position",
                    .caption =
                        "KL divergence from the unquantized model, nats per token, by the number of "
                        "context tokens (powers of two, log scale). n: tokens, in the table.",
                    .table = {.columns = {{"of", "model, plan"},
                                          {"first", "context from (tokens)"},
                                          {"last", "to"},
                                          {"kld", "divergence (nats)"},
                                          {"perplexity_ratio", "perplexity ratio"},
                                          {"n", "tokens"}}},
                    .drawn = {"kld"}};
  material.ForEach("tare.eval/1", [&](const Json& json) {
    for (const auto& [name, task] : json.at("tasks").items()) {
      if (task.contains("by_context")) AddTask(json, task, figure);
    }
  });
  if (figure.table.rows.empty()) return {};
  return {figure};
}

}  // namespace tare
