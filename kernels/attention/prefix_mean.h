// SPDX-License-Identifier: Apache-2.0
// The vector that +smooth subtracts from Q, K or V before quantizing: of each head and channel the mean over the
// sequence's first tokens, which later tokens do not change. Only the rounding differs: the contribution of Q's mean to
// each key's logits is known, softmax is unaffected by what all keys share, and V's mean is added back. Source:
// SageAttention, arXiv 2410.02367, section 4.2 (K), and SageAttention2, arXiv 2411.10958 (Q), with a frozen prefix for
// their means.
#pragma once

#include <cstdint>

#include "kernels/attention/heads.h"

namespace tare {

inline constexpr int64_t kSmoothingTokens = 64;

// Writes mean [heads][width]. x.tokens >= 1.
void MeanOfPrefix(HeadsView<const float> x, float* mean);

}  // namespace tare
