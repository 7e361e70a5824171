// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {

TaskResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                             const Progress& progress) {
  std::vector<double> losses;  // in the order of the text: the sum does not depend on threads
  ForwardAll(model, visitors, sequences, progress, [&](const TokenBatch& batch, size_t begin) {
    std::vector<int64_t> rows;
    std::vector<int32_t> targets;
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const ScoredSequence& s = sequences[begin + i];
      for (auto t = s.first_target; t < static_cast<int64_t>(s.tokens.size()); ++t) {
        rows.push_back(batch.sequences[i].first_row + t - 1);
        targets.push_back(s.tokens[t]);
      }
    }
    const size_t first = losses.size();
    losses.resize(first + rows.size());
    model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
      losses[first + i] = LogSumExp(logits, model.config().vocabulary) - static_cast<double>(logits[targets[i]]);
    });
  });

  if (losses.empty()) Fail("perplexity: the input leaves no token to predict; expected at least two tokens");
  std::vector<double> window_losses;
  std::vector<int64_t> window_tokens;
  size_t next = 0;
  for (const ScoredSequence& s : sequences) {
    const int64_t scored = std::max<int64_t>(0, std::ssize(s.tokens) - s.first_target);
    double sum = 0;
    for (int64_t t = 0; t < scored; ++t) sum += losses[next++];
    window_losses.push_back(sum);
    window_tokens.push_back(scored);
  }
  const auto n = static_cast<double>(losses.size());
  double nll = 0, squares = 0;
  for (const double loss : losses) nll += loss / n;
  for (const double loss : losses) squares += (loss - nll) * (loss - nll);
  const double perplexity = std::exp(nll);
  if (!std::isfinite(perplexity))
    Fail("perplexity: the mean loss is {} nats, which is no figure; try `tare stats` to see where", nll);
  return {.figures = {{"nll", nll},
                      {"perplexity", perplexity},
                      {"tokens", losses.size()},
                      {"nll_stderr", losses.size() > 1 ? std::sqrt(squares / (n - 1) / n) : 0.0},
                      {"windows", sequences.size()},
                      {"window_losses", window_losses},
                      {"window_tokens", window_tokens}},
          .records = {}};
}

nlohmann::ordered_json PerplexityConvention(const WindowOptions& w) {
  return {{"window", w.window},
          {"stride", w.stride},
          {"tokens", w.tokens},
          {"convention",
           "each token is scored once, by the first window that holds it; text windows begin with <s>; windows advance "
           "by stride tokens (0: all that a window holds, where there is no <s> all but one), the last is moved back "
           "to be full"}};
}

namespace {

RunTask Read(const std::filesystem::path& file, const Model& of, const WindowOptions& windows) {
  const TokenInput input = LoadTokenInput(file, of.folder(), of.config().vocabulary);
  return [sequences = CutSequences(input, of.config(), windows), cut = CutOf(input, of.config(), windows)](
             Model& model, PlanRun& run, const Progress& progress) {
    TaskResult result = MeasurePerplexity(model, run.Begin(model), sequences, progress);
    result.figures.update(
        {{"window", cut.window}, {"stride", cut.stride}, {"bos", cut.bos}, {"cut_to_positions", cut.cut_to_positions}});
    return result;
  };
}

std::string How(const nlohmann::ordered_json& result) {
  return Formatted(
      "{} windows of {}{}, stride {}, {} <s>: {} tokens scored", result.at("windows").dump(),
      result.at("window").dump(), result.at("cut_to_positions").get<bool>() ? " (all of the model's positions)" : "",
      result.at("stride").dump(), result.at("bos").get<bool>() ? "each after" : "without", result.at("tokens").dump());
}

constexpr WindowKeys kWindows{.losses = "window_losses", .counts = "window_tokens"};
constexpr FigureKeys kFigures[] = {
    {.name = "perplexity", .windows = kWindows, .of_mean = OfMean::kExponential, .format = "9.4f"},
    {.name = "nll", .error = "nll_stderr", .windows = kWindows, .format = ".5f", .in_tables = nullptr}};

}  // namespace

constexpr TaskKind kPerplexityTask{.name = "perplexity",
                                   .file = "TEXT",
                                   .read = Read,
                                   .figures = kFigures,
                                   .count = "tokens",
                                   .unit = "tokens",
                                   .convention = PerplexityConvention,
                                   .how = How};

}  // namespace tare
