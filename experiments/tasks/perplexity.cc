// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

namespace tare {

PerplexityResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
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

  PerplexityResult result{.tokens = static_cast<int64_t>(losses.size()),
                          .windows = static_cast<int64_t>(sequences.size())};
  if (losses.empty()) Fail("perplexity: the input leaves no token to predict; expected at least two tokens");
  const auto n = static_cast<double>(losses.size());
  for (const double loss : losses) result.nll += loss / n;
  double squares = 0;
  for (const double loss : losses) squares += (loss - result.nll) * (loss - result.nll);
  if (losses.size() > 1) result.nll_stderr = std::sqrt(squares / (n - 1) / n);
  result.perplexity = std::exp(result.nll);
  if (!std::isfinite(result.perplexity))
    Fail("perplexity: the mean loss is {} nats, which is no figure; try `tare stats` to see where", result.nll);
  return result;
}

}  // namespace tare
