// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/smoothing.h"

#include <algorithm>

#include "kernels/elementwise/rows.h"

namespace tare {

const float* MeanOfPrefix(HeadsView<const float> x, std::vector<float>& mean) {
  const int64_t tokens = std::min(x.tokens, kSmoothingTokens);
  mean.assign(static_cast<size_t>(x.heads) * x.width, 0.0f);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int head = 0; head < x.heads; ++head)
      AddTo(mean.data() + static_cast<int64_t>(head) * x.width, x.Row(t, head), x.width);
  }
  ScaleInto(mean.data(), 1.0f / static_cast<float>(tokens), mean.size(), mean.data());
  return mean.data();
}

}  // namespace tare
