// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/prefix_mean.h"

#include <algorithm>

#include "kernels/elementwise/rows.h"

namespace tare {

void MeanOfPrefix(HeadsView<const float> x, float* mean) {
  const int64_t tokens = std::min(x.tokens, kSmoothingTokens);
  const int64_t size = int64_t{x.heads} * x.width;
  std::fill_n(mean, size, 0.0f);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int head = 0; head < x.heads; ++head) AddTo(mean + int64_t{head} * x.width, x.Row(t, head), x.width);
  }
  ScaleInto(mean, 1.0f / static_cast<float>(tokens), static_cast<size_t>(size), mean);
}

}  // namespace tare
