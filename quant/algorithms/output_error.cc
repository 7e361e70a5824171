// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/output_error.h"

#include <algorithm>
#include <vector>

#include <Eigen/Core>

#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Rows = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

constexpr int64_t kRowsAtOnce = 64;      // share a reading of H, which no cache holds
constexpr int64_t kColumnsAtOnce = 256;  // the blocks of H below its diagonal are those above it: half the products

// Into sums, by row.
void AddErrors(const Rows& d, const Rows& h, double* sums) {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> product;
  for (int64_t first = 0; first < d.cols(); first += kColumnsAtOnce) {
    const int64_t width = std::min(kColumnsAtOnce, d.cols() - first), rest = d.cols() - first;
    product.noalias() = d.middleCols(first, width) * h.block(first, first, width, rest);
    for (int64_t r = 0; r < d.rows(); ++r) {
      double diagonal = 0, beyond = 0;
      for (int64_t j = 0; j < width; ++j) diagonal += double{product(r, j)} * double{d(r, first + j)};
      for (int64_t j = width; j < rest; ++j) beyond += double{product(r, j)} * double{d(r, first + j)};
      sums[r] += diagonal + 2 * beyond;
    }
  }
}

}  // namespace

double OutputError(std::span<const float> errors, int64_t in, std::span<const float> moments) {
  TARE_CHECK(std::ssize(moments) == in * in && std::ssize(errors) % in == 0);
  const int64_t rows = std::ssize(errors) / in;
  const Rows h(moments.data(), in, in);
  std::vector<double> sums(static_cast<size_t>(rows), 0.0);
  ParallelForBlocks(rows, kRowsAtOnce, [&](int64_t first, int64_t count) {
    AddErrors(Rows(errors.data() + first * in, count, in), h, sums.data() + first);
  });
  double sum = 0;
  for (const double row : sums) sum += row;
  return sum;
}

}  // namespace tare
