// SPDX-License-Identifier: Apache-2.0
// Picks the next token from vocabulary logits: the most likely one, or one drawn at a temperature from the most likely
// tokens that together have probability top_p (nucleus sampling, arXiv 1904.09751). The same seed and logits give the
// same tokens on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace tare {

struct Sampling {
  double temperature = 0;  // 0: the likeliest token, the first of equals
  double top_p = 1;        // above 0, up to 1
  uint64_t seed = 0;
};

class Sampler {
 public:
  // Throws Error for a temperature below 0 or not finite, and for top_p outside (0, 1].
  explicit Sampler(const Sampling& sampling);

  // Throws Error where a logit is NaN or the largest is not finite.
  int32_t Pick(std::span<const float> logits);

 private:
  int32_t Draw(std::span<const float> logits, float largest);

  Sampling sampling_;
  std::mt19937_64 random_;
  std::vector<double> weights_;  // of all tokens, against the likeliest's 1
  std::vector<int32_t> nucleus_;
};

}  // namespace tare
