// SPDX-License-Identifier: Apache-2.0
// The choice of an answer, figures and readers of both tasks, records, accuracies, log-likelihoods, and the TaskKinds.
#include "experiments/tasks/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/tasks/groups.h"
#include "experiments/tasks/items/choice_items.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// Index of the largest value, the first of equals, as numpy's argmax.
int ArgMax(const std::vector<double>& values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

constexpr WindowKeys kChoiceSamples{.losses = "sample_right", .counts = "sample_items", .kind = Units::kIndependent},
    kSamplesNorm{.losses = "sample_right_norm", .counts = "sample_items", .kind = Units::kIndependent};
constexpr FigureKeys kChoiceFigures[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = kChoiceSamples},
    {.name = "acc_norm",
     .error = "acc_norm_stderr",
     .outcomes = "outcomes_norm",
     .windows = kSamplesNorm,
     .what = "share of items right, by log-likelihood per character"}};

constexpr WindowKeys kItems{.losses = "item_losses", .counts = "item_counts", .kind = Units::kIndependent};
constexpr FigureKeys kLoglikelihoodFigures[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = kChoiceSamples},
    {.name = "perplexity", .windows = kItems, .of_mean = OfMean::kExponential}};

RunTask ReadChoice(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  return TaskOfItems(LoadLines<ParseChoiceItem>(file, static_cast<size_t>(options.windows.limit), options.windows.from),
                     of, [](const std::vector<ChoiceItem>& items, const EndingScores& scores) {
                       TaskResult result = Accuracies(items, scores);
                       result.figures["reported"] = ReportedAccuracy(items);
                       return result;
                     });
}

std::string HowChoice(const Json& result) {
  const std::string samples =
      result.contains("sample_items") ? " of " + Counted(std::ssize(result["sample_items"]), "sample") : "";
  return Formatted("{}{}, each ending scored after its context, {} <s>", Counted(result.at("n"), "item"), samples,
                   result.at("bos").get<bool>() ? "with" : "without");
}

RunTask ReadLoglikelihood(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  return TaskOfItems(
      LoadLines<ParseContinuation>(file, static_cast<size_t>(options.windows.limit), options.windows.from), of,
      LogLikelihoods);
}

std::string HowLoglikelihood(const Json& result) {
  return Formatted("{}, each scored after its context, {} <s>", Counted(result.at("n"), "continuation"),
                   result.at("bos").get<bool>() ? "with" : "without");
}

}  // namespace

TaskResult Accuracies(const std::vector<ChoiceItem>& items, const EndingScores& scores) {
  TaskResult result;
  std::string outcomes, outcomes_norm;
  for (size_t i = 0; i < items.size(); ++i) {
    const ChoiceItem& item = items[i];
    std::vector<double> log_likelihoods, by_character;
    std::vector<size_t> characters;
    for (const ScoredEnding& ending : scores[i]) {
      log_likelihoods.push_back(ending.log_likelihood);
      characters.push_back(ending.characters);
      by_character.push_back(ending.log_likelihood / static_cast<double>(ending.characters));
    }
    const int answer = ArgMax(log_likelihoods), answer_norm = ArgMax(by_character);
    outcomes += answer == item.label ? '1' : '0';
    outcomes_norm += answer_norm == item.label ? '1' : '0';
    result.records.push_back({{"line", item.line},
                              {"label", item.label},
                              {"answer", answer},
                              {"answer_norm", answer_norm},
                              {"log_likelihoods", log_likelihoods},
                              {"characters", characters}});
    if (!item.keys.empty()) result.records.back()["item"] = item.keys;
  }
  result.figures["n"] = items.size();
  AddShare(result.figures, "acc", outcomes);
  AddShare(result.figures, "acc_norm", outcomes_norm);
  result.figures.update({{"outcomes", outcomes}, {"outcomes_norm", outcomes_norm}});
  AddSamples(result, kChoiceFigures);
  return result;
}

const char* ReportedAccuracy(const std::vector<ChoiceItem>& items) {
  const auto of_words = [](const ChoiceItem& item) {
    return item.contexts.size() == 1 && std::ranges::any_of(item.endings, [](const std::string& ending) {
             return Strip(ending).find(' ') != std::string_view::npos;
           });
  };
  return std::ranges::any_of(items, of_words) ? "acc_norm" : "acc";
}

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
  const double loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  result.figures["n"] = losses.size();
  AddShare(result.figures, "acc", outcomes);
  result.figures.update({{"perplexity", std::exp(loss)},
                         {"outcomes", outcomes},
                         {"item_losses", losses},
                         {"item_counts", std::vector<int64_t>(losses.size(), 1)}});
  AddSamples(result, kLoglikelihoodFigures);
  return result;
}

constexpr TaskKind kChoiceTask{.name = "choice",
                               .file = "ITEMS.jsonl",
                               .what = "accuracy on multiple-choice items",
                               .read = ReadChoice,
                               .figures = kChoiceFigures,
                               .count = "n",
                               .unit = "item",
                               .how = HowChoice,
                               .keys = KeysOfItems<LoadLines<ParseChoiceItem>>};

constexpr TaskKind kLogLikelihoodTask{.name = "loglikelihood",
                                      .file = "CONTINUATIONS.jsonl",
                                      .what = "accuracy and perplexity of continuations",
                                      .read = ReadLoglikelihood,
                                      .figures = kLoglikelihoodFigures,
                                      .count = "n",
                                      .unit = "continuation",
                                      .how = HowLoglikelihood,
                                      .keys = KeysOfItems<LoadLines<ParseContinuation>>};

}  // namespace tare
