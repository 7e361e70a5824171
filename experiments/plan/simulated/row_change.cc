// SPDX-License-Identifier: Apache-2.0
// Applies a rule's options to each row of a block before rounding and undoes them after it: remedies that cost no bits.
//
//   maxshift   subtracts the row's largest logit: softmax is unaffected, and the most important values are near 0
//   keep<n>    leaves the first n keys (columns of maps and logits, tokens of k and v) unchanged and out of the scales,
//              because attention sinks are among them
//   smooth     subtracts the mean of each channel over the sequence's first tokens, or all (smoothall); smooth128 that
//              of each run of queries, which stays subtracted (query_means.h)
//   prerotary  of keys: takes rotary positions off (KVQuant, arXiv 2401.18079: channels are alike then)
//   hadamard   rotates a row's channels, of q, k and v those of a head (quant/format/hadamard.h): q and k by the same
//              matrix, like weights and their inputs, so that products do not change; v is rotated back where attention
//              has summed it, which is the same as here
#include "experiments/plan/simulated/simulated_quantizer.h"

#include <algorithm>
#include <cmath>

#include "experiments/plan/simulated/query_means.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Empty without +smooth.
std::vector<float> MeanOfRows(const SiteBlock& block, const RuleOptions& options) {
  const std::optional<MeanOver>& over = options.smooth;
  if (!over) return {};
  if (*over == MeanOver::kEach) return MeansOfRuns(block, options.smooth_each);
  TARE_CHECK(block.first_row == 0);  // all tokens of the sequence
  std::vector<float> mean(static_cast<size_t>(block.first_columns));
  MeanOfPrefix(
      HeadsView<const float>{block.values, block.rows, 1, static_cast<int>(block.first_columns), block.stride, 0},
      mean.data(), *over == MeanOver::kAll ? block.rows : kSmoothingTokens);
  return mean;
}

}  // namespace

RowChange::RowChange(const RuleOptions& options, const SiteBlock& block, const KeyRotary* rotary)
    : block_(block),
      max_shift_(options.max_shift),
      keep_(options.keep),
      rotation_(options.Rotation(block.first_columns)),
      rotary_(rotary),
      mean_of_(options.smooth_each),
      mean_(MeanOfRows(block, options)) {
  if (Any()) made_.resize(static_cast<size_t>(block.rows));
}

// How many of a row's columns, from the first on, stay as they are.
size_t RowChange::Kept(int64_t r, size_t columns) const {
  if (block_.site == Site::kK || block_.site == Site::kV) return block_.first_row + r < keep_ ? columns : 0;
  return static_cast<size_t>(std::clamp<int64_t>(keep_ - block_.First(r), 0, static_cast<int64_t>(columns)));
}

void RowChange::Make(int64_t r, std::span<float> row) {
  Made& made = made_[static_cast<size_t>(r)];
  const std::span<float> kept = row.first(Kept(r, row.size()));
  made.kept.assign(kept.begin(), kept.end());
  if (max_shift_ && !row.empty()) {
    made.shift = std::ranges::max(row);
    for (float& x : row) x -= made.shift;
  }
  if (!mean_.empty()) SubtractScaled(row.data(), MeanAt(r), 1.0f, row.size());
  std::ranges::fill(kept, 0.0f);  // which widens no scale
  if (rotary_) rotary_->TurnBack(row.data(), block_.first_row + r);
  if (rotation_) rotation_->Rotate(row.data(), row.data());
}

void RowChange::Undo(int64_t r, std::span<float> row) const {
  const Made& made = made_[static_cast<size_t>(r)];
  if (rotation_) rotation_->RotateBack(row.data(), row.data());
  if (rotary_) rotary_->Turn(row.data(), block_.first_row + r);
  if (!mean_.empty() && mean_of_ == 0) SubtractScaled(row.data(), MeanAt(r), -1.0f, row.size());
  for (float& x : row) x += made.shift;
  std::ranges::copy(made.kept, row.begin());
}

ZeroSink::ZeroSink(const Plan& plan)
    : plan_(plan), any_(std::ranges::any_of(plan.rules(), [](const Rule& rule) { return rule.options.sink; })) {}

bool ZeroSink::Wants(Site site, std::optional<int>) const {
  return any_ && (site == Site::kAttnLogits || site == Site::kProbs);
}

void ZeroSink::BeginBatch(int64_t) { shares_.resize(static_cast<size_t>(Threads())); }

bool ZeroSink::HoldsFor(const SiteBlock& block) const {
  SiteKey key = block.key();
  key.site = Site::kAttnLogits;
  const Rule* rule = plan_.Match(key);
  return rule != nullptr && rule->options.sink;
}

void ZeroSink::Visit(const SiteBlock& block, int thread) {
  if (!HoldsFor(block)) return;
  std::vector<float>& shares = shares_[static_cast<size_t>(thread)];
  if (block.site == Site::kAttnLogits) {
    shares.clear();
    for (int64_t r = 0; r < block.rows; ++r) {
      const std::span<float> row = block.Row(r);
      shares.push_back(row.empty() ? 0.0f : static_cast<float>(1 / (1 + std::exp(-LogSumExp(row.data(), row.size())))));
    }
    return;
  }
  TARE_CHECK(std::ssize(shares) == block.rows);
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<float> row = block.Row(r);
    ScaleInto(row.data(), shares[static_cast<size_t>(r)], row.size(), row.data());
  }
}

}  // namespace tare
