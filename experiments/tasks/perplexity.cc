// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

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
                      {"windows", sequences.size()}},
          .records = {}};
}

namespace {

RunTask Read(const std::filesystem::path& file, const Model& of, const WindowOptions& windows) {
  const TokenInput input = LoadTokenInput(file, of.folder(), of.config().vocabulary);
  return [sequences = CutSequences(input, of.config(), windows)](Model& model, PlanRun& run, const Progress& progress) {
    return MeasurePerplexity(model, run.Begin(model), sequences, progress);
  };
}

nlohmann::ordered_json Convention(const WindowOptions& w) {
  return {{"window", w.window},
          {"stride", w.stride},
          {"tokens", w.tokens},
          {"convention",
           "each token is scored once, by the first window that holds it; text windows begin with <s>; windows advance "
           "by stride tokens (0: all that a window holds, where there is no <s> all but one), the last is moved back "
           "to be full"}};
}

constexpr FigureKeys kFigures[] = {{.name = "perplexity", .format = "9.4f"},
                                   {.name = "nll", .error = "nll_stderr", .format = ".5f", .in_tables = false}};

}  // namespace

constexpr TaskKind kPerplexityTask{.name = "perplexity",
                                   .file = "TEXT",
                                   .read = Read,
                                   .figures = kFigures,
                                   .count = "tokens",
                                   .unit = "tokens",
                                   .convention = Convention};

}  // namespace tare
