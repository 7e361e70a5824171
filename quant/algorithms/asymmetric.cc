// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/asymmetric.h"

#include <Eigen/Core>
#include <algorithm>

#include "quant/algorithms/cholesky.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/quantize.h"

namespace tare {

AsymmetricTarget::AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in,
                                   double damping, const std::string& where)
    : in_(in), change_(cross) {
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
    Fail("{}: the calibration's second moments are not positive definite; try a longer calibration text", where);
  InvertInPlace(in, factor.data());
  MultiplyByInverse(in, factor.data(), in, change_.data());
}

void AsymmetricTarget::Correct(int64_t rows, float* w) const {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr int64_t kRows = 64;  // share a reading of the change, which no cache holds
  const Eigen::Map<const Floats> change(change_.data(), in_, in_);
  ParallelFor(static_cast<size_t>((rows + kRows - 1) / kRows), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kRows;
    Eigen::Map<Floats> part(w + first * in_, std::min(kRows, rows - first), in_);
    const Floats stored = part;
    part.noalias() += stored * change;
  });
}

}  // namespace tare
