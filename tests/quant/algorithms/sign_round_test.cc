// SPDX-License-Identifier: Apache-2.0
// Against a reference in double that visits one weight after another and differentiates by dual numbers, and against
// what learning promises: never worse than rounding to nearest, and better than it where inputs are correlated. Against
// another implementation: tests/experiments/quantize/calibrated_layers_test.cc.
#include "quant/algorithms/sign_round.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/algorithms/gptq.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::sign_round_test {
namespace {

constexpr int64_t kIn = 48, kOut = 70, kGroup = 16, kTokens = 200;

// A value and its derivative to one parameter.
struct Dual {
  double x, d = 0;
  friend Dual operator+(Dual a, Dual b) { return {a.x + b.x, a.d + b.d}; }
  friend Dual operator-(Dual a, Dual b) { return {a.x - b.x, a.d - b.d}; }
  friend Dual operator*(Dual a, Dual b) { return {a.x * b.x, a.x * b.d + a.d * b.x}; }
  friend Dual operator/(Dual a, Dual b) { return {a.x / b.x, (a.d * b.x - a.x * b.d) / (b.x * b.x)}; }
};
Dual Rounded(Dual a) { return {std::nearbyint(a.x), a.d}; }
Dual Clamped(Dual a, double low, double high) { return a.x < low ? Dual{low} : a.x > high ? Dual{high} : a; }

// A weight's value by the header's formulas.
Dual ValueWith(double w, Dual v, Dual alpha, Dual beta, Ends widest, Format format) {
  const FormatInfo& info = Info(format);
  const Dual c{info.range == CodeRange::kMin ? (double{widest.low} + double{widest.high}) / 2 : 0.0};
  const Dual q{double{info.Largest()}}, low = c + alpha * (Dual{double{widest.low}} - c),
                                        high = c + beta * (Dual{double{widest.high}} - c);
  if (!HasOffset(format)) {
    const Dual scale = high / q;
    return Clamped(Rounded(Dual{w} / scale + v), info.min_code, info.max_code) * scale;
  }
  const Dual scale = (high - low) / q;
  if (info.range == CodeRange::kMin)
    return Clamped(Rounded((Dual{w} - low) / scale + v), 0, info.max_code) * scale + low;
  const Dual zero = Rounded(Dual{0} - low / scale);
  return (Clamped(Rounded(Dual{w} / scale + v) + zero, 0, info.max_code) - zero) * scale;
}

double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

class SignRoundTest : public testing::TestWithParam<Format> {
 protected:
  SignRoundTest() : h_(kIn * kIn), x_(RandomNormal(kTokens * kIn, 1)) {
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 1; i < kIn; ++i) x_[t * kIn + i] = 0.7f * x_[t * kIn + i - 1] + x_[t * kIn + i] * (0.5f + i % 5);
    }
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = 0; j < kIn; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < kTokens; ++t) sum += double{x_[t * kIn + i]} * double{x_[t * kIn + j]};
        h_[i * kIn + j] = static_cast<float>(sum);
      }
    }
  }

  void Read(int64_t row, float* y) const { std::copy_n(w_.data() + row * kIn, kIn, y); }
  Ends Widest(const float* values, int64_t n) const {
    const Ends ends = ChooseEnds(values, n, GetParam(), ClipChoice::kAbsmax);
    return {ends.low * shrunk_, ends.high * shrunk_};
  }
  QuantizedMatrixBuffer Learned(int steps) const {
    QuantizedMatrixBuffer matrix(GetParam(), kOut, kIn, kGroup);
    SignRound(h_, kIn, "test")
        .Round([&](int64_t row, float* y) { Read(row, y); },
               [&](int64_t, int64_t, const float* values, int64_t n) { return Widest(values, n); }, steps, matrix);
    return matrix;
  }
  double LossOf(const QuantizedMatrixBuffer& matrix) const {
    std::vector<float> errors(kOut * kIn);
    for (int64_t row = 0; row < kOut; ++row) DequantizeRow(matrix.view(), row, errors.data() + row * kIn);
    for (size_t i = 0; i < errors.size(); ++i) errors[i] -= w_[i];
    return OutputError(errors, kIn, h_);
  }

  // The least loss of a row in so many steps.
  double ReferenceLoss(int64_t row, int steps) const {
    const float* const w = w_.data() + row * kIn;
    std::vector<double> v(kIn, 0.0), alpha(kIn / kGroup, 1.0), beta(kIn / kGroup, 1.0);
    const bool offset = HasOffset(GetParam());
    std::vector<Ends> widest;
    for (int64_t first = 0; first < kIn; first += kGroup) widest.push_back(Widest(w + first, kGroup));
    double best = HUGE_VAL;
    for (int step = 0; step <= steps; ++step) {
      const auto value = [&](int64_t i, double dv, double da, double db) {
        const int64_t g = i / kGroup;
        return ValueWith(w[i], {v[i], dv}, {alpha[g], da}, {beta[g], db}, widest[g], GetParam());
      };
      std::vector<double> gradient(kIn, 0.0);
      double loss = 0;
      for (int64_t j = 0; j < kIn; ++j) {
        const double error = value(j, 0, 0, 0).x - double{w[j]};
        double* const sums = gradient.data();
        const float* const of_j = h_.data() + j * kIn;
        for (int64_t i = 0; i < kIn; ++i) sums[i] += error * double{of_j[i]};
      }
      for (int64_t i = 0; i < kIn; ++i) loss += gradient[i] * (value(i, 0, 0, 0).x - double{w[i]});
      best = std::min(best, loss);
      const double rate = (1.0 - step / static_cast<double>(steps)) / steps;
      std::vector<double> of_alpha(alpha.size(), 0.0), of_beta(beta.size(), 0.0), of_v(kIn);
      for (int64_t i = 0; i < kIn; ++i) {
        of_alpha[i / kGroup] += gradient[i] * value(i, 0, 1, 0).d;
        of_beta[i / kGroup] += gradient[i] * value(i, 0, 0, 1).d;
        of_v[i] = gradient[i] * value(i, 1, 0, 0).d;
      }
      for (int64_t i = 0; i < kIn; ++i) v[i] = std::clamp(v[i] - rate * SignOf(of_v[i]), -0.5, 0.5);
      for (size_t g = 0; g < beta.size(); ++g) {
        beta[g] = std::clamp(beta[g] - rate * SignOf(of_beta[g]), 1e-3, 1.0);
        alpha[g] = offset ? std::clamp(alpha[g] - rate * SignOf(of_alpha[g]), 1e-3, 1.0) : beta[g];
      }
    }
    return best;
  }

  float shrunk_ = 1;  // the ends to begin with
  std::vector<float> h_, x_, w_ = RandomNormal(kOut * kIn, 2);
};

// One step has one gradient, whose signs f32 gives but for values within its rounding of 0. In many steps such values
// part the ways of both; what they reach is the same within a few of a hundred.
TEST_P(SignRoundTest, LearnsWhatTheReferenceLearns) {
  shrunk_ = 0.99f;  // with +full the largest weight of a group would be 7.5 steps, a tie that f32 and double can break
  for (const auto& [steps, tolerance] : {std::pair{1, 1e-4}, {4, 2e-3}, {50, 2e-2}, {200, 2e-2}}) {
    double reference = 0;
    for (int64_t row = 0; row < kOut; ++row) reference += ReferenceLoss(row, steps);
    EXPECT_NEAR(LossOf(Learned(steps)), reference, tolerance * reference) << steps;
  }
}

TEST_P(SignRoundTest, IsNeverWorseThanNearestInAnyRow) {
  QuantizedMatrixBuffer nearest(GetParam(), kOut, kIn, kGroup);
  for (int64_t row = 0; row < kOut; ++row) RoundRowToNearest(w_.data() + row * kIn, ClipChoice::kAbsmax, nearest, row);
  const QuantizedMatrixBuffer learned = Learned(100);
  for (int64_t row = 0; row < kOut; ++row) {
    const auto loss = [&](const QuantizedMatrixBuffer& matrix) {
      std::vector<float> errors(kIn);
      DequantizeRow(matrix.view(), row, errors.data());
      for (int64_t i = 0; i < kIn; ++i) errors[i] -= w_[row * kIn + i];
      return OutputError(errors, kIn, h_);
    };
    EXPECT_LE(loss(learned), loss(nearest) * (1 + 1e-4)) << row;
  }
  EXPECT_LT(LossOf(learned), 0.8 * LossOf(nearest));
}

TEST_P(SignRoundTest, SameOnAnyNumberOfThreads) {
  SetThreads(1);
  const QuantizedMatrixBuffer one = Learned(20);
  SetThreads(3);
  const QuantizedMatrixBuffer three = Learned(20);
  SetThreads(0);
  EXPECT_TRUE(std::equal(one.view().codes, one.view().codes + one.code_bytes(), three.view().codes));
  EXPECT_TRUE(std::equal(one.view().scales, one.view().scales + one.scale_count(), three.view().scales));
}

TEST_P(SignRoundTest, GroupsOfZerosAndInputsThatAreAlwaysZero) {
  std::fill_n(w_.begin(), kGroup, 0.0f);
  for (int64_t i = 0; i < kIn; ++i) h_[40 * kIn + i] = h_[i * kIn + 40] = 0;
  const QuantizedMatrixBuffer learned = Learned(30);
  std::vector<float> row(kIn);
  DequantizeRow(learned.view(), 0, row.data());
  EXPECT_THAT(std::span(row).first(kGroup), testing::Each(0.0f));
  for (int64_t r = 0; r < kOut; ++r) {
    DequantizeRow(learned.view(), r, row.data());
    const QuantizedMatrix& m = learned.view();
    const GroupScale group{{0, m.ScaleOf(r, 40 / kGroup)}, m.ZeroOf(r, 40 / kGroup), m.MinimumOf(r, 40 / kGroup)};
    const auto end = [&](int code) { return ValueOf(static_cast<float>(code), group); };
    const float held = std::clamp(w_[r * kIn + 40], end(Info(GetParam()).min_code), end(Info(GetParam()).max_code));
    EXPECT_LE(std::fabs(row[40] - held), 0.501f * group.scale.scale) << r;
  }
}

TEST(SignRoundMoments, ThatAreNotFiniteAreNamed) {
  EXPECT_THAT(Call([] { SignRound({1, std::numeric_limits<float>::infinity(), 0, 1}, 2, "layer 3"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("layer 3")));
}

INSTANTIATE_TEST_SUITE_P(Formats, SignRoundTest,
                         testing::Values(Format::kInt4, WithRange(Format::kInt4, CodeRange::kFull),
                                         WithRange(Format::kInt4, CodeRange::kZero),
                                         WithRange(Format::kInt4, CodeRange::kMin)));

constexpr int64_t kLearned = 37;  // a last block of 5 rows

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

  std::vector<float> w_ = RandomNormal(kLearned * kIn, 1);
  QuantizedMatrixBuffer matrix_{GetParam(), kLearned, kIn, kGroup};
};

constexpr LearnedRows::Lanes All() {
  LearnedRows::Lanes all;
  all.fill(1);
  return all;
}

TEST_P(LearnedRowsTest, BeginWithTheNearestAndWriteWhatTheyHold) {
  QuantizedMatrixBuffer nearest(GetParam(), kLearned, kIn, kGroup);
  for (int64_t row = 0; row < kLearned; ++row)
    RoundRowToNearest(w_.data() + row * kIn, ClipChoice::kAbsmax, nearest, row);
  for (const int64_t first : {int64_t{0}, kRowsTogether}) {
    LearnedRows rows = Rows(matrix_, first);
    EXPECT_EQ(rows.count(), first == 0 ? kRowsTogether : kLearned - kRowsTogether);
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
}  // namespace tare::sign_round_test
