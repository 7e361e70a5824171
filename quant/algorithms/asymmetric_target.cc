// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/asymmetric_target.h"

#include <algorithm>

#include "quant/algorithms/cholesky.h"
#include "quant/algorithms/gptq.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/quantize.h"

namespace tare {

AsymmetricTarget::AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in,
                                   double damping, const std::string& where)
    : in_(in) {
  TARE_CHECK(static_cast<int64_t>(hessian.size()) == in * in && hessian.size() == cross.size());
  if (FirstNotFinite(hessian) || FirstNotFinite(cross))
    Fail("{}: the calibration's moments hold NaN or infinity; try another calibration text", where);
  const double mean = MeanOfDiagonal(hessian, in);
  std::vector<float> factor(hessian.size());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j <= i; ++j) factor[i * in + j] = hessian[j * in + i];
    factor[i * in + i] = static_cast<float>(double{hessian[i * in + i]} + damping * mean);
  }
  if (!FactorInPlace(in, factor.data()))
    Fail(
        "{}: the calibration's second moments are not positive definite; try a longer calibration text, or a larger "
        "damping than {}",
        where, damping);
  InvertInPlace(in, factor.data());
  std::vector<float> change(cross);
  MultiplyByInverse(in, factor.data(), in, change.data());
  change_ = Panels(Panels::Shape::kFull, in, change.data());
}

void AsymmetricTarget::Correct(int64_t rows, float* w) const {
  ParallelForBlocks(rows, kRowsTogether, [&](int64_t first, int64_t count) {
    AlignedBuffer<float> stored(Panels::ValuesFor(in_)), sums(stored.size());  // [in][kRowsTogether]
    std::fill_n(stored.data(), stored.size(), 0.0f);
    std::fill_n(sums.data(), sums.size(), 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < in_; ++i) stored[i * kRowsTogether + r] = w[(first + r) * in_ + i];
    }
    change_.AddProducts({0, in_}, {0, change_.count()}, stored.data(), sums.data());
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < in_; ++i) w[(first + r) * in_ + i] += sums[i * kRowsTogether + r];
    }
  });
}

}  // namespace tare
