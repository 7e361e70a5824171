// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/perplexity.h"

#include <algorithm>
#include <cmath>

#include "experiments/tasks/windows.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

namespace tare {
namespace {

// Tokens that a window holds, and how far windows advance.
struct Cut {
  size_t held, stride;
};

Cut CutFor(const TokenInput& input, const ModelConfig& config, const WindowOptions& options) {
  const int64_t bos = input.bos ? 1 : 0;
  size_t row = 0;
  for (const auto& sequence : input.sequences) row = std::max(row, sequence.size());
  const int64_t usual = input.kind == TokenInput::Kind::kIds ? static_cast<int64_t>(row) : kTextWindow;
  const int64_t window = options.window == 0 ? std::min<int64_t>(usual, config.max_positions) : options.window;
  if (window < 1 + bos || window > config.max_positions) {
    Fail("--window: got {}, expected {} to {} (the checkpoint's max_position_embeddings)", window, 1 + bos, config.max_positions);
  }
  const int64_t held = window - bos;
  if (options.stride < 0 || options.stride > held) {
    Fail("--stride: got {}, expected 1 to {}, the tokens of a window, or 0", options.stride, held);
  }
  // Without <s>, windows share a token, so that the first of each is scored as the last of the one before.
  const int64_t stride = options.stride != 0 ? options.stride : bos == 1 ? held : std::max<int64_t>(1, held - 1);
  return {static_cast<size_t>(held), static_cast<size_t>(stride)};
}

int64_t Longest(const std::vector<ScoredSequence>& sequences) {
  size_t longest = 1;
  for (const ScoredSequence& s : sequences) longest = std::max(longest, s.tokens.size());
  return static_cast<int64_t>(longest);
}

}  // namespace

std::vector<ScoredSequence> CutSequences(const TokenInput& input, const ModelConfig& config, const WindowOptions& options) {
  const std::optional<int32_t> bos = input.bos;
  const Cut cut = CutFor(input, config, options);
  std::vector<ScoredSequence> sequences;
  size_t left = options.tokens == 0 ? SIZE_MAX : static_cast<size_t>(options.tokens);
  for (const std::vector<int32_t>& row : input.sequences) {
    const size_t n = std::min(row.size(), left);
    left -= n;
    for (const Window& w : CutWindows(n, cut.held, cut.stride)) {
      if (options.limit != 0 && sequences.size() == static_cast<size_t>(options.limit)) return sequences;
      ScoredSequence& s = sequences.emplace_back();
      if (bos) s.tokens.push_back(*bos);
      s.tokens.insert(s.tokens.end(), row.begin() + static_cast<ptrdiff_t>(w.begin), row.begin() + static_cast<ptrdiff_t>(w.end));
      s.first_target = std::max<int64_t>(1, static_cast<int64_t>(w.first_scored - w.begin) + (bos ? 1 : 0));
    }
  }
  return sequences;
}

int64_t SequencesPerBatch(int64_t longest) { return std::max<int64_t>(1, 2048 / longest); }

void ForwardAll(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences, const Progress& progress,
                const std::function<void(const TokenBatch&, size_t begin)>& body) {
  int64_t total = 0, done = 0;
  for (const ScoredSequence& s : sequences) total += static_cast<int64_t>(s.tokens.size());
  const auto step = static_cast<size_t>(SequencesPerBatch(Longest(sequences)));
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    TokenBatch batch;
    for (size_t i = begin; i < std::min(begin + step, sequences.size()); ++i) batch.Add(static_cast<int64_t>(i), sequences[i].tokens);
    model.Forward(batch, visitors);
    body(batch, begin);
    done += batch.Rows();
    Report(progress, done, total, "tokens");
  }
}

PerplexityResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences, const Progress& progress) {
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

  PerplexityResult result{.tokens = static_cast<int64_t>(losses.size()), .windows = static_cast<int64_t>(sequences.size())};
  if (losses.empty()) Fail("perplexity: the input leaves no token to predict; expected at least two tokens");
  const auto n = static_cast<double>(losses.size());
  for (const double loss : losses) result.nll += loss / n;
  double squares = 0;
  for (const double loss : losses) squares += (loss - result.nll) * (loss - result.nll);
  if (losses.size() > 1) result.nll_stderr = std::sqrt(squares / (n - 1) / n);
  result.perplexity = std::exp(result.nll);
  return result;
}

}  // namespace tare
