// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <limits>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/random_quantized.h"

namespace tare::low_rank_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double At(const ThinFactors& factors, int64_t rank, int64_t in, int64_t row, int64_t i) {
  double sum = 0;
  for (int64_t k = 0; k < rank; ++k) sum += factors.up[row * rank + k] * factors.down[k * in + i];
  return sum;
}

double SquaredError(const std::vector<float>& w, int64_t out, int64_t in, int64_t rank) {
  const ThinFactors factors = NearestOfRank(w.data(), out, in, rank, "w");
  double sum = 0;
  for (int64_t row = 0; row < out; ++row) {
    for (int64_t i = 0; i < in; ++i) sum += std::pow(double{w[row * in + i]} - At(factors, rank, in, row, i), 2);
  }
  return sum;
}

// auto-round b9f3d00's factors of rank 4, and codes and scales of what they leave of W; the first row is of zeros,
// whose scale is what rounding left.
TEST(LowRank, HasTheFactorsOfItsAuthors) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/weights.safetensors");
  constexpr int64_t kOut = 12, kIn = 32, kRank = 4;
  const std::vector<float> w = ValuesOf<float>(golden, "w");
  const std::vector<double> low = ValuesOf<double>(golden, "svdquant_low"),
                            scale = ValuesOf<double>(golden, "svdquant_scale");
  const std::vector<int8_t> codes = ValuesOf<int8_t>(golden, "svdquant_codes");
  const ThinFactors factors = NearestOfRank(w.data(), kOut, kIn, kRank, "golden");
  QuantizedMatrixBuffer matrix(Format::kInt4, kOut, kIn, kIn);
  for (int64_t row = 0; row < kOut; ++row) {
    std::vector<float> rest(kIn);
    for (int64_t i = 0; i < kIn; ++i) {
      const double got = At(factors, kRank, kIn, row, i);
      EXPECT_NEAR(got, low[row * kIn + i], 1e-12) << row << ' ' << i;
      rest[i] = static_cast<float>(w[row * kIn + i] - got);
    }
    RoundRowToNearest(rest.data(), ClipChoice::kAbsmax, matrix, row);
    if (row == 0) continue;
    EXPECT_NEAR(matrix.Scales(row)[0], scale[row], 1e-6 * scale[row]);
    std::vector<int8_t> got(kIn);
    Unpack<int8_t>(Format::kInt4, {matrix.Codes(row), matrix.view().RowBytes()}, got);
    EXPECT_TRUE(std::ranges::equal(got, std::span(codes).subspan(row * kIn, kIn))) << row;
  }
}

// Eckart and Young: what rank r leaves is the sum of W W^T's smaller eigenvalues, which another algorithm finds; so it
// falls with every rank, to nothing.
TEST(LowRank, LeavesTheSmallerSingularValues) {
  std::vector<float> twice(6 * 6), few(9 * 5), large = RandomNormal(7 * 4, 9);
  for (int64_t i = 0; i < 6; ++i) twice[i * 6 + (i + 1) % 6] = i < 4 ? 3 : -1;  // singular values 3 3 3 3 1 1
  for (int64_t i = 0; i < 45; ++i) few[i] = static_cast<float>(i / 5 + 1) * static_cast<float>(i % 5 - 2);  // of rank 1
  for (float& x : large) x *= 1e30f;
  struct Case {
    std::vector<float> w;
    int64_t out, in;
  };
  for (const auto& [w, out, in] : {Case{RandomNormal(1 * 7, 1), 1, 7},
                                   {RandomNormal(7 * 1, 2), 7, 1},
                                   {RandomNormal(1, 3), 1, 1},
                                   {RandomNormal(20 * 33, 4), 20, 33},
                                   {RandomNormal(70 * 40, 5), 70, 40},
                                   {twice, 6, 6},
                                   {few, 9, 5},
                                   {std::vector<float>(8 * 3), 8, 3},
                                   {large, 7, 4}}) {
    const Eigen::MatrixXd values =
        Eigen::Map<const Eigen::Matrix<float, -1, -1, Eigen::RowMajor>>(w.data(), out, in).cast<double>();
    const Eigen::VectorXd squares =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(values * values.transpose()).eigenvalues();  // rising
    const int64_t most = std::min(out, in);
    for (int64_t rank = 1; rank <= most; ++rank)
      EXPECT_NEAR(SquaredError(w, out, in, rank), squares.head(out - rank).sum(), 1e-12 * squares.sum())
          << out << ' ' << in << ' ' << rank;
    const ThinFactors factors = NearestOfRank(w.data(), out, in, most, "w");
    for (int64_t k = 0; k < most; ++k) {
      for (int64_t l = 0; l <= k; ++l) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) sum += factors.down[k * in + i] * factors.down[l * in + i];
        EXPECT_NEAR(sum, k == l, 1e-12);
      }
    }
  }
}

TEST(LowRank, RefusesRanksThatThereAreNot) {
  const std::vector<float> w = RandomNormal(12, 6);
  for (const int64_t rank : {-1, 0, 4, 5})
    EXPECT_THAT(Call([&] { NearestOfRank(w.data(), 4, 3, rank, "layer 3"); }),
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("layer 3"), HasSubstr("rank"), HasSubstr("1 to 3"))));
}

TEST(LowRank, RefusesWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> w = RandomNormal(12, 7);
    w[7] = bad;
    EXPECT_THAT(Call([&] { NearestOfRank(w.data(), 4, 3, 2, "layer 3"); }),
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("layer 3, row 2"), HasSubstr("at 1"))));
  }
}

}  // namespace
}  // namespace tare::low_rank_test
