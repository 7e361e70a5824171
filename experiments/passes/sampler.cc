// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/base/error.h"

namespace tare {

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0)
    Fail("--temperature: got {}, expected 0 (the likeliest token) or more", sampling.temperature);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    Fail("--top-p: got {}, expected more than 0, at most 1", sampling.top_p);
}

int32_t Sampler::Pick(std::span<const float> logits) {
  const auto nan = std::ranges::find_if(logits, [](float x) { return std::isnan(x); });
  const auto largest = std::ranges::max_element(logits);
  if (nan != logits.end() || !std::isfinite(*largest))
    Fail("vocabulary logits: got NaN or infinity, from which no token can be drawn; try `tare stats` to see where");
  if (sampling_.temperature == 0) return static_cast<int32_t>(largest - logits.begin());
  return Draw(logits, *largest);
}

int32_t Sampler::Draw(std::span<const float> logits, float largest) {
  weights_.clear();
  for (const float x : logits) weights_.push_back(std::exp((double{x} - largest) / sampling_.temperature));
  const double all = std::reduce(weights_.begin(), weights_.end());
  // Those too rare for the nucleus need not be sorted: even together they hold less than what it leaves out.
  const double rare = (1 - sampling_.top_p) * all / static_cast<double>(logits.size());
  nucleus_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && weights_[i] >= rare) nucleus_.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(nucleus_, std::greater(), [&](int32_t token) { return weights_[token]; });
  double held = 0;
  size_t count = 0;
  while (count < nucleus_.size() && held < sampling_.top_p * all) held += weights_[nucleus_[count++]];
  double point = static_cast<double>(random_() >> 11) * 0x1p-53 * held;
  for (size_t i = 0; i + 1 < count; ++i) {
    point -= weights_[nucleus_[i]];
    if (point < 0) return nucleus_[i];
  }
  return nucleus_[count - 1];
}

}  // namespace tare
