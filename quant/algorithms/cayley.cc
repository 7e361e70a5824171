// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/cayley.h"

#include <cmath>

#include <Eigen/Core>
#include <Eigen/LU>

#include "quant/base/error.h"

namespace tare {

void CayleyStep(int64_t n, std::span<const double> m, double angle, std::vector<double>& q) {
  using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  TARE_CHECK(std::ssize(m) == n * n && std::ssize(q) == n * n);
  const Eigen::Map<const Square> gradient(m.data(), n, n);
  Square k = gradient - gradient.transpose();
  const double norm = k.norm();
  if (norm == 0) return;
  k *= angle / 2 * std::sqrt(static_cast<double>(n)) / norm;
  const Square unit = Square::Identity(n, n);
  const Square factor = (unit + k).partialPivLu().solve(unit - k);
  Eigen::Map<Square> at(q.data(), n, n);
  at = (at * factor).eval();
}

}  // namespace tare
