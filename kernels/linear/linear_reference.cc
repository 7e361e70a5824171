// SPDX-License-Identifier: Apache-2.0
// ReferenceLinear of quantized_linear.h.
#include "kernels/linear/quantized_linear.h"

#include <cmath>

#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

LinearReference ReferenceLinear(const float* x, int64_t rows, Format activation, const QuantizedMatrix& w,
                                const float* bias) {
  LinearReference result;
  const double step = double{AsStepCodes(w.format)->step};
  std::vector<float> weights(static_cast<size_t>(w.in));
  std::vector<int16_t> codes(static_cast<size_t>(w.in));
  for (int64_t r = 0; r < rows; ++r) {
    const float x_scale = QuantizeGroup({x + r * w.in, static_cast<size_t>(w.in)}, activation, codes);
    for (int64_t n = 0; n < w.out; ++n) {
      Unpack<float>(w.format, {w.codes + static_cast<size_t>(n) * w.RowBytes(), w.RowBytes()}, weights);
      double y = 0;
      for (int64_t g = 0; g < w.Groups(); ++g) {
        int64_t sum = 0, inputs = 0;
        for (int64_t i = g * w.group; i < (g + 1) * w.group; ++i) {
          sum += int64_t{codes[i]} * (std::llround(double{weights[i]} / step) - std::llround(w.ZeroOf(n, g)));
          inputs += codes[i];
        }
        result.sums.push_back(sum);
        y += static_cast<double>(sum) * step * double{w.ScaleOf(n, g)} +
             static_cast<double>(inputs) * double{w.MinimumOf(n, g)};
      }
      result.y.push_back(y * double{x_scale} + (bias == nullptr ? 0.0 : double{bias[n]}));
    }
  }
  return result;
}

}  // namespace tare
