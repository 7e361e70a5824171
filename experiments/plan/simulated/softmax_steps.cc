// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/simulated/softmax_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kKeys = 64;  // of a tile

float Rounded(const std::optional<HalfRounding>& to, float x) { return to ? RoundedToHalf(x, *to) : x; }

}  // namespace

void SoftmaxInTiles(const SoftmaxSteps& steps, int64_t first, std::span<float> row) {
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t begin = 0, end = 0; begin < std::ssize(row); begin = end) {
    end = std::min(begin + kKeys - (first + begin) % kKeys, std::ssize(row));
    const std::span<float> before = row.first(static_cast<size_t>(begin));
    const std::span<float> tile = row.subspan(before.size(), static_cast<size_t>(end - begin));
    const float largest = std::max(max, std::ranges::max(tile));
    const float factor = before.empty() ? 0 : Rounded(steps.rescale, std::exp2(Rounded(steps.rescale, max - largest)));
    if (factor != 1) std::ranges::for_each(before, [factor](float& p) { p *= factor; });
    float of_tile = 0;
    for (float& x : tile) {
      x = Rounded(steps.exponential, std::exp2(Rounded(steps.difference, x - largest)));
      of_tile += x;
    }
    max = largest;
    sum = sum * factor + Rounded(steps.sum, of_tile);
  }
  for (float& p : row) p /= sum;
}

SoftmaxOfPlan::SoftmaxOfPlan(const Plan& plan)
    : plan_(plan),
      any_(std::ranges::any_of(plan.rules(), [](const Rule& rule) { return rule.options.softmax.Any(); })) {}

const SoftmaxSteps* SoftmaxOfPlan::StepsOf(const SiteBlock& block) const {
  SiteKey key = block.key();
  key.site = Site::kProbs;
  const Rule* const rule = any_ ? plan_.Match(key) : nullptr;
  return rule != nullptr && rule->options.softmax.Any() ? &rule->options.softmax : nullptr;
}

void SoftmaxOfPlan::BeginBatch() { logits_.resize(static_cast<size_t>(Threads())); }

void SoftmaxOfPlan::KeepLogits(const SiteBlock& block, int thread) {
  if (StepsOf(block) == nullptr) return;
  std::vector<float>& kept = logits_[static_cast<size_t>(thread)];
  kept.clear();
  for (int64_t r = 0; r < block.rows; ++r) {
    for (const float logit : block.Row(r)) kept.push_back(logit * std::numbers::log2e_v<float>);
  }
}

void SoftmaxOfPlan::WriteProbs(const SiteBlock& block, int thread) const {
  const SoftmaxSteps* const steps = StepsOf(block);
  if (steps == nullptr) return;
  auto from = logits_[static_cast<size_t>(thread)].begin();
  for (int64_t r = 0; r < block.rows; ++r) {
    const std::span<float> row = block.Row(r);
    std::copy_n(from, row.size(), row.begin());
    from += std::ssize(row);
    SoftmaxInTiles(*steps, block.First(r), row);
  }
}

}  // namespace tare
