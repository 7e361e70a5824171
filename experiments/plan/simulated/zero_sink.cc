// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/simulated/zero_sink.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {

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
