// SPDX-License-Identifier: Apache-2.0
// What is rounded, kept and written; that steps follow the formulas is sign_round_test.cc's.
#include "quant/algorithms/learned_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::learned_rows_test {
namespace {

constexpr int64_t kIn = 48, kOut = 37, kGroup = 16;  // a last block of 5 rows

class LearnedRowsTest : public testing::TestWithParam<Format> {
 protected:
  LearnedRows Rows(QuantizedMatrixBuffer& matrix, int64_t first) const {
    return {matrix.view(), first, [this](int64_t row, float* y) { std::copy_n(w_.data() + row * kIn, kIn, y); },
            EndsBy(ClipChoice::kAbsmax, GetParam())};
  }
  std::vector<float> RowOf(const QuantizedMatrixBuffer& matrix, int64_t row) const {
    std::vector<float> values(kIn);
    DequantizeRow(matrix.view(), row, values.data());
    return values;
  }
  static std::vector<float> ValuesOf(const LearnedRows& rows, int64_t lane) {
    std::vector<float> values(kIn);
    rows.CopyValues(lane, values.data());
    return values;
  }

  std::vector<float> w_ = RandomNormal(kOut * kIn, 1);
  QuantizedMatrixBuffer matrix_{GetParam(), kOut, kIn, kGroup};
};

constexpr LearnedRows::Lanes All() {
  LearnedRows::Lanes all;
  all.fill(1);
  return all;
}

TEST_P(LearnedRowsTest, BeginWithTheNearestAndWriteWhatTheyHold) {
  QuantizedMatrixBuffer nearest(GetParam(), kOut, kIn, kGroup);
  for (int64_t row = 0; row < kOut; ++row) RoundRowToNearest(w_.data() + row * kIn, ClipChoice::kAbsmax, nearest, row);
  for (const int64_t first : {int64_t{0}, kRowsTogether}) {
    LearnedRows rows = Rows(matrix_, first);
    EXPECT_EQ(rows.count(), first == 0 ? kRowsTogether : kOut - kRowsTogether);
    rows.Round();
    rows.Keep(All());
    rows.Write(matrix_);
    for (int64_t lane = 0; lane < rows.count(); ++lane) {
      EXPECT_EQ(RowOf(matrix_, first + lane), ValuesOf(rows, lane)) << first + lane;
      for (int64_t i = 0; i < kIn; ++i)  // a range about its middle is its ends' but for the last bit
        EXPECT_NEAR(ValuesOf(rows, lane)[i], RowOf(nearest, first + lane)[i], 1e-6) << first + lane;
    }
  }
}

// A gradient of -1 everywhere moves weights up, and one of 0 leaves them.
TEST_P(LearnedRowsTest, AStepGoesAgainstTheGradientAndOnlyLanesThatAreBetterAreKept) {
  LearnedRows rows = Rows(matrix_, 0);
  rows.Round();
  rows.Keep(All());
  const std::vector<float> moved = ValuesOf(rows, 0), still = ValuesOf(rows, 1), other = ValuesOf(rows, 2);
  for (int64_t i = 0; i < kIn; ++i) {
    for (int64_t r = 0; r < kRowsTogether; ++r) rows.gradient()[i * kRowsTogether + r] = r == 1 ? 0.0f : -1.0f;
  }
  rows.Step(0.4f);
  rows.Round();
  double sum = 0;
  for (int64_t i = 0; i < kIn; ++i) sum += double{ValuesOf(rows, 0)[i]} - double{moved[i]};
  EXPECT_GT(sum, 1);
  EXPECT_EQ(ValuesOf(rows, 1), still);
  EXPECT_NE(ValuesOf(rows, 2), other);
  LearnedRows::Lanes better{};
  better[0] = 1;
  rows.Keep(better);
  rows.Write(matrix_);
  EXPECT_EQ(RowOf(matrix_, 0), ValuesOf(rows, 0));
  EXPECT_EQ(RowOf(matrix_, 2), other) << "as it was kept before";
}

TEST_P(LearnedRowsTest, ErrorsAreWhatRoundingAddsAndLanesWithoutARowAreZero) {
  LearnedRows rows = Rows(matrix_, kRowsTogether);
  rows.Round();
  for (int64_t lane = 0; lane < kRowsTogether; ++lane) {
    for (int64_t i = 0; i < kIn; ++i) {
      const float error = rows.errors()[i * kRowsTogether + lane];
      if (lane >= rows.count()) {
        EXPECT_EQ(error, 0);
      } else {
        EXPECT_EQ(error, ValuesOf(rows, lane)[i] - w_[(kRowsTogether + lane) * kIn + i]);
      }
    }
  }
}

TEST_P(LearnedRowsTest, WeightsThatAreNotFiniteAreRefused) {
  w_[3 * kIn + 7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Call([&] { Rows(matrix_, 0); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("row 3: got inf at 7")));
}

INSTANTIATE_TEST_SUITE_P(Formats, LearnedRowsTest,
                         testing::Values(Format::kInt4, Format::kInt2, WithRange(Format::kInt4, CodeRange::kZero),
                                         WithRange(Format::kInt2, CodeRange::kMin)));

}  // namespace
}  // namespace tare::learned_rows_test
