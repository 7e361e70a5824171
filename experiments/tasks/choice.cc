// SPDX-License-Identifier: Apache-2.0
// Batches and scores of endings; chosen answers, figures, readers; the item task, accuracies, likelihoods, TaskKinds.
#include "experiments/tasks/choice.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ranges>
#include <span>

#include "experiments/passes/sequences.h"
#include "experiments/text/utf8.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int64_t kBatchRows = 2048;  // a batch is full once it has so many

// A token of an ending whose log-probability is read from a row of the batch.
struct Target {
  int64_t row;
  int32_t token;
  size_t item, ending;
};

class Batch {
 public:
  Batch(std::optional<int32_t> bos, ContextSharing sharing) : bos_(bos), sharing_(sharing) {}

  void Add(size_t item, const EncodedChoice& choice) {
    if (sharing_ == ContextSharing::kAllowed && choice.shares_context) {
      AddShared(item, choice);
    } else {
      for (size_t e = 0; e < choice.endings.size(); ++e) AddWhole(item, e, choice.endings[e]);
    }
  }
  bool Full() const { return tokens.Rows() >= kBatchRows; }

  TokenBatch tokens;
  std::vector<Target> targets;

 private:
  std::vector<int32_t> Front(const EncodedChoice::Ending& ending, size_t count) const {
    std::vector<int32_t> front;
    if (bos_) front.push_back(*bos_);
    front.insert(front.end(), ending.tokens.begin(), ending.tokens.begin() + static_cast<ptrdiff_t>(count));
    return front;
  }

  // The context once, each ending a branch; an ending's first token is predicted by the context's last row.
  void AddShared(size_t item, const EncodedChoice& choice) {
    const size_t context = choice.endings[0].first_scored;
    const std::vector<int32_t> front = Front(choice.endings[0], context);
    const int64_t last = tokens.Add(static_cast<int64_t>(item), front) + static_cast<int64_t>(front.size()) - 1;
    for (size_t e = 0; e < choice.endings.size(); ++e) {
      const auto ending = std::span(choice.endings[e].tokens).subspan(context);
      targets.push_back({last, ending[0], item, e});
      if (ending.size() == 1) continue;
      // Without the last token, which predicts nothing that is scored.
      const int64_t first = tokens.AddBranch(ending.first(ending.size() - 1));
      for (size_t i = 1; i < ending.size(); ++i)
        targets.push_back({first + static_cast<int64_t>(i) - 1, ending[i], item, e});
    }
  }

  // With the last token, which predicts nothing scored (lm-evaluation-harness drops it), for scales that span rows.
  void AddWhole(size_t item, size_t e, const EncodedChoice::Ending& ending) {
    const std::vector<int32_t> whole = Front(ending, ending.tokens.size());
    const int64_t first = tokens.Add(static_cast<int64_t>(item), whole);
    for (size_t i = (bos_ ? 1 : 0) + ending.first_scored; i < whole.size(); ++i)
      targets.push_back({first + static_cast<int64_t>(i) - 1, whole[i], item, e});
  }

  std::optional<int32_t> bos_;
  ContextSharing sharing_;
};

// Scores the targets whose rows the last pass computed. passed: its rows, as the batch numbers them.
void Score(Model& model, const std::vector<Target>& targets, const std::vector<int64_t>& passed, EndingScores& scores) {
  std::map<int64_t, int64_t> row_of_pass;
  for (size_t i = 0; i < passed.size(); ++i) row_of_pass[passed[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> rows;
  std::vector<const Target*> here;
  for (const Target& t : targets) {
    const auto row = row_of_pass.find(t.row);
    if (row == row_of_pass.end()) continue;
    rows.push_back(row->second);
    here.push_back(&t);
  }
  const int vocabulary = model.config().vocabulary;
  std::vector<double> log_probabilities(rows.size());
  std::vector<char> greedy(rows.size());
  model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
    const int32_t token = here[i]->token;
    log_probabilities[i] = static_cast<double>(logits[token]) - LogSumExp(logits, vocabulary);
    greedy[i] = std::max_element(logits, logits + vocabulary) == logits + token;  // the first of equals
  });
  for (size_t i = 0; i < rows.size(); ++i) {
    ScoredEnding& ending = scores[here[i]->item][here[i]->ending];
    ending.log_likelihood += log_probabilities[i];
    ending.greedy = ending.greedy && greedy[i] != 0;
  }
}

void RunBatch(Model& model, SiteVisitors visitors, const Batch& batch, const std::optional<CachePlan>& cache,
              EndingScores& scores) {
  const auto score = [&](const TokenBatch&, const std::vector<int64_t>& rows) {
    Score(model, batch.targets, rows, scores);
  };
  if (cache) return PassThroughCaches(model, visitors, batch.tokens, *cache, score);
  model.Forward(batch.tokens, visitors);
  score(batch.tokens, std::views::iota(int64_t{0}, batch.tokens.Rows()) | std::ranges::to<std::vector>());
}

// Refused under every plan, even though endings that share their context would need one row less.
void CheckLength(const ChoiceItem& item, const EncodedChoice& encoded, size_t bos, int max_positions) {
  for (const EncodedChoice::Ending& ending : encoded.endings) {
    const size_t length = bos + ending.tokens.size();
    if (length > static_cast<size_t>(max_positions)) {
      Fail("{}: got {} tokens with an ending, expected at most max_position_embeddings {}; try a shorter context",
           item.where, length, max_positions);
    }
  }
}

// A token takes at least a byte, so short items need not be encoded for this.
void CheckLengths(const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer, int max_positions) {
  for (const ChoiceItem& item : items) {
    const size_t context = std::ranges::max(item.contexts, {}, &std::string::size).size();
    const size_t ending = std::ranges::max(item.endings, {}, &std::string::size).size();
    if (context + ending + 2 > static_cast<size_t>(max_positions))
      CheckLength(item, EncodeChoice(item, tokenizer), tokenizer.bos() ? 1 : 0, max_positions);
  }
}

// From the first items: the others are assumed to be as long.
TaskSize SizeOfItems(const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer) {
  constexpr size_t kMost = 32;
  const auto first = std::span(items).first(std::min(kMost, items.size()));
  Batch whole(tokenizer.bos(), ContextSharing::kForbidden), shared(tokenizer.bos(), ContextSharing::kAllowed);
  for (const ChoiceItem& item : first) {
    const EncodedChoice encoded = EncodeChoice(item, tokenizer);
    whole.Add(0, encoded);
    shared.Add(0, encoded);
  }
  const auto of_all = [&](const Batch& batch) {
    return first.empty() ? 1 : batch.tokens.Rows() * std::ssize(items) / std::ssize(first);
  };
  return {.whole = of_all(whole), .shared = of_all(shared)};
}

void RequireFinite(const EndingScores& scores, const std::vector<ChoiceItem>& items) {
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t e = 0; e < scores[i].size(); ++e) {
      if (!std::isfinite(scores[i][e].log_likelihood))
        Fail("item of line {}, ending {}: the log-likelihood is not finite; try `tare stats` to see where",
             items[i].line, e);
    }
  }
}

// Index of the largest value, the first of equals, as numpy's argmax.
int ArgMax(const std::vector<double>& values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

constexpr FigureKeys kAccuracy{
    .name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = OfSamples("sample_right")};
constexpr FigureKeys kChoiceFigures[] = {kAccuracy,
                                         {.name = "acc_norm",
                                          .error = "acc_norm_stderr",
                                          .outcomes = "outcomes_norm",
                                          .windows = OfSamples("sample_right_norm"),
                                          .what = "share of items right, by log-likelihood per character"}};

constexpr FigureKeys kLoglikelihoodFigures[] = {
    kAccuracy,
    {.name = "perplexity", .windows = OfSamples("item_losses", "item_counts"), .of_mean = OfMean::kExponential}};

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

EndingScores ScoreEndings(Model& model, SiteVisitors visitors, ContextSharing sharing,
                          const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer, std::optional<int32_t> bos,
                          const std::optional<CachePlan>& cache, const Progress& progress) {
  if (items.empty()) Fail("got no items to score; expected at least one line");
  EndingScores scores;
  Batch batch(bos, sharing);
  for (size_t i = 0; i < items.size(); ++i) {
    const EncodedChoice encoded = EncodeChoice(items[i], tokenizer);
    CheckLength(items[i], encoded, bos ? 1 : 0, model.config().max_positions);
    for (const auto& ending : encoded.endings) RequireRows(ending.tokens, model.config().vocabulary, items[i].where);
    std::vector<ScoredEnding>& endings = scores.emplace_back();
    for (const auto& ending : encoded.endings) endings.push_back({.characters = ending.characters});
    batch.Add(i, encoded);
    if (!batch.Full() && i + 1 < items.size()) continue;
    RunBatch(model, visitors, batch, cache, scores);
    batch = Batch(bos, sharing);
    Report(progress, std::ssize(scores), std::ssize(items), "items");
  }
  RequireFinite(scores, items);
  return scores;
}

RunTask TaskOfItems(std::vector<ChoiceItem> items, const Model& of,
                    TaskResult (*result)(const std::vector<ChoiceItem>& items, const EndingScores& scores)) {
  Tokenizer loaded = Tokenizer::Load(of.folder());
  CheckLengths(items, loaded, of.config().max_positions);
  const TaskSize size = SizeOfItems(items, loaded);
  auto body = [tokenizer = std::move(loaded), items = std::move(items), result](Model& model, PlanRun& run,
                                                                                const Progress& progress) {
    const SiteVisitors visitors = run.Begin(model, progress);
    const auto sharing = run.SpansRows() ? ContextSharing::kForbidden : ContextSharing::kAllowed;
    TaskResult scored =
        result(items, ScoreEndings(model, visitors, sharing, items, tokenizer, tokenizer.bos(), run.cache(), progress));
    scored.figures["bos"] = tokenizer.bos().has_value();
    return scored;
  };
  return {std::move(body), size};
}

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
