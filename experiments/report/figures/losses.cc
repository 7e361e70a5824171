// SPDX-License-Identifier: Apache-2.0
// Loss by the number of context tokens, from `tare eval --tasks perplexity=TEXT`.
#include "experiments/report/figures/figures.h"
#include "experiments/report/figures/sentences.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

std::string LossText(const Json& range) { return EstimateText(NumberAt(range, "nll"), NumberAt(range, "nll_stderr")); }

void AddLosses(const Json& evaluation, const std::string& name, const Json& task, FigureData& figure) {
  const std::string of = EvaluatedName(evaluation) + " on " + name.substr(name.find(':') + 1);
  const Json& ranges = task.at("by_position");
  for (const Json& range : ranges) {
    const double loss = NumberAt(range, "nll"), error = NumberAt(range, "nll_stderr");
    figure.table.Add({of, range.at("first"), range.at("last"), NumberOrNull(loss), NumberOrNull(error),
                      NumberOrNull(loss - error), NumberOrNull(loss + error), range.at("tokens")});
  }
  if (ranges.empty()) return;
  const Json &first = ranges.front(), &last = ranges.back();
  figure.findings.push_back(Formatted("The loss of {} on {} is {} nats per token with {} of context, and {} with {}.",
                                      EvaluatedText(evaluation), name.substr(name.find(':') + 1), LossText(first),
                                      ContextText(first), LossText(last), ContextText(last)));
}

}  // namespace

std::vector<FigureData> Losses(const Material& material) {
  FigureData figure{
      .name = "losses",
      .title = "Loss by position",
      .caption =
          "Negative log-likelihood, nats per token, by the number of context tokens (powers of two, log scale); bars "
          "are one standard error either way, over windows, where there are enough. n: tokens, in the table.",
      .table = {.columns = {{"of", "model, plan"},
                            {"first", "context from (tokens)"},
                            {"last", "to"},
                            {"loss", "loss (nats)"},
                            {"error", "standard error"},
                            {"low", "less one error"},
                            {"high", "plus one error"},
                            {"n", "tokens"}}},
      .drawn = {"loss"}};
  material.ForEach("tare.eval/1", [&](const Json& json) {
    for (const auto& [name, task] : json.at("tasks").items()) {
      if (task.contains("by_position")) AddLosses(json, name, task, figure);
    }
  });
  if (figure.table.rows.empty()) return {};
  return {figure};
}

}  // namespace tare
