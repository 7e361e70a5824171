// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/loglikelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/significance/accuracy.h"
#include "experiments/tasks/groups.h"
#include "experiments/tasks/items/continuation_items.h"
#include "experiments/text/grammar.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr WindowKeys kLoglikelihoodSamples{
    .losses = "sample_right", .counts = "sample_items", .kind = Units::kIndependent},
    kItems{.losses = "item_losses", .counts = "item_counts", .kind = Units::kIndependent};
constexpr FigureKeys kLoglikelihoodFigures[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = kLoglikelihoodSamples},
    {.name = "perplexity", .windows = kItems, .of_mean = OfMean::kExponential}};

RunTask ReadLoglikelihood(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  return TaskOfItems(LoadContinuations(file, static_cast<size_t>(options.windows.limit), options.windows.from), of,
                     LogLikelihoods);
}

std::string HowLoglikelihood(const Json& result) {
  return Formatted("{}, each scored after its context, {} <s>", Counted(result.at("n"), "continuation"),
                   result.at("bos").get<bool>() ? "with" : "without");
}

std::vector<ItemKeys> LoglikelihoodKeys(const std::filesystem::path& file, const WindowOptions& windows) {
  return KeysOfItems(LoadContinuations(file, static_cast<size_t>(windows.limit), windows.from));
}

}  // namespace

TaskResult LogLikelihoods(const std::vector<ChoiceItem>& items, const EndingScores& scores) {
  TaskResult result;
  std::string outcomes;
  std::vector<double> losses;
  for (size_t i = 0; i < items.size(); ++i) {
    for (const ScoredEnding& score : scores[i]) {
      outcomes += score.greedy ? '1' : '0';
      losses.push_back(-score.log_likelihood);
      result.records.push_back(
          {{"line", items[i].line}, {"log_likelihood", score.log_likelihood}, {"greedy", score.greedy}});
      if (!items[i].keys.empty()) result.records.back()["item"] = items[i].keys;
    }
  }
  const auto n = static_cast<double>(losses.size());
  const double acc = static_cast<double>(std::ranges::count(outcomes, '1')) / n;
  result.figures = {{"n", losses.size()},
                    {"acc", acc},
                    {"acc_stderr", ShareError(acc, n)},
                    {"perplexity", std::exp(std::accumulate(losses.begin(), losses.end(), 0.0) / n)},
                    {"outcomes", outcomes},
                    {"item_losses", losses},
                    {"item_counts", std::vector<int64_t>(losses.size(), 1)}};
  AddSamples(result, kLoglikelihoodFigures);
  return result;
}

constexpr TaskKind kLogLikelihoodTask{.name = "loglikelihood",
                                      .file = "CONTINUATIONS.jsonl",
                                      .what = "accuracy and perplexity of continuations",
                                      .read = ReadLoglikelihood,
                                      .figures = kLoglikelihoodFigures,
                                      .count = "n",
                                      .unit = "continuation",
                                      .how = HowLoglikelihood,
                                      .keys = LoglikelihoodKeys};

}  // namespace tare
