// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/low_rank.h"

#include <Eigen/Dense>
#include <algorithm>

#include "quant/base/message.h"
#include "quant/format/round.h"

namespace tare {

ThinFactors NearestOfRank(const float* w, int64_t out, int64_t in, int64_t rank, const std::string& where) {
  using Weights = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  CheckRange(where, "rank", rank, 1, std::min(out, in));
  if (const auto bad = FirstNotFinite({w, static_cast<size_t>(out * in)})) {
    const auto at = static_cast<int64_t>(*bad);
    Fail("{}, row {}: got {} at {}, expected finite values", where, at / in, w[at], at % in);
  }
  const Eigen::MatrixXd values = Eigen::Map<const Weights>(w, out, in).cast<double>();
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(values, Eigen::ComputeThinU | Eigen::ComputeThinV);
  ThinFactors factors{std::vector<double>(static_cast<size_t>(out * rank)),
                      std::vector<double>(static_cast<size_t>(rank * in))};
  Eigen::Map<Doubles>(factors.up.data(), out, rank) =
      svd.matrixU().leftCols(rank) * svd.singularValues().head(rank).asDiagonal();
  Eigen::Map<Doubles>(factors.down.data(), rank, in) = svd.matrixV().leftCols(rank).transpose();
  return factors;
}

}  // namespace tare
