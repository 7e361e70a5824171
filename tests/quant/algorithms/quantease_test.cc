// SPDX-License-Identifier: Apache-2.0
// The paper's promises: the error never grows, and at the end no single code can be improved. Scales equal a
// least-squares solution found in another way.
#include "quant/algorithms/quantease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "quant/algorithms/gptq.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::quantease_test {
namespace {

constexpr int64_t kIn = 64, kOut = 9;

// Correlated inputs of different sizes; only the upper triangle means anything.
std::vector<float> Hessian(unsigned seed) {
  constexpr int64_t kSamples = 300;
  const std::vector<float> noise = RandomNormal(static_cast<size_t>(kSamples * kIn), seed);
  Eigen::MatrixXd x(kSamples, kIn);
  for (int64_t s = 0; s < kSamples; ++s) {
    for (int64_t i = 0; i < kIn; ++i)
      x(s, i) = (noise[s * kIn + i] + noise[s * kIn]) * (0.3 + static_cast<double>(i * 7 % 11));
  }
  const Eigen::MatrixXd h = x.transpose() * x;
  std::vector<float> hessian(static_cast<size_t>(kIn * kIn), -1e30f);
  for (int64_t i = 0; i < kIn; ++i) {
    for (int64_t j = i; j < kIn; ++j) hessian[i * kIn + j] = static_cast<float>(h(i, j));
  }
  return hessian;
}

Eigen::MatrixXd Damped(const std::vector<float>& hessian) {
  Eigen::MatrixXd h(kIn, kIn);
  for (int64_t i = 0; i < kIn; ++i) {
    for (int64_t j = 0; j < kIn; ++j) h(i, j) = double{hessian[std::min(i, j) * kIn + std::max(i, j)]};
  }
  const double mean = h.diagonal().mean();
  h.diagonal().array() += kGptqDamping * mean;
  return h;
}

class QuantEaseTest : public testing::TestWithParam<Format> {
 protected:
  void Read(int64_t row, float* y) const { std::copy_n(w_.data() + row * kIn, kIn, y); }
  QuantizedMatrixBuffer Nearest(int64_t group) const {
    QuantizedMatrixBuffer matrix(GetParam(), kOut, kIn, group);
    for (int64_t row = 0; row < kOut; ++row) RoundRowToNearest(w_.data() + row * kIn, ClipChoice::kAbsmax, matrix, row);
    return matrix;
  }
  void Improve(int sweeps, QuantizedMatrixBuffer& matrix) const {
    QuantEase(hessian_, kIn, kGptqDamping, "test")
        .Improve([&](int64_t row, float* y) { Read(row, y); }, sweeps, matrix);
  }
  double ErrorWith(const std::vector<float>& q, int64_t row) const {
    Eigen::VectorXd e(kIn);
    for (int64_t i = 0; i < kIn; ++i) e(i) = double{w_[row * kIn + i]} - double{q[i]};
    return e.dot(damped_ * e);
  }
  double ErrorOf(const QuantizedMatrixBuffer& matrix, int64_t row) const {
    std::vector<float> q(kIn);
    DequantizeRow(matrix.view(), row, q.data());
    return ErrorWith(q, row);
  }

  std::vector<float> hessian_ = Hessian(1), w_ = RandomNormal(kOut * kIn, 2);
  Eigen::MatrixXd damped_ = Damped(hessian_);
};

TEST_P(QuantEaseTest, EverySweepLowersTheError) {
  for (const int64_t group : {int64_t{16}, kIn}) {
    std::vector<double> before(kOut, std::numeric_limits<double>::infinity());
    for (const int sweeps : {0, 1, 2, 4, 30}) {
      QuantizedMatrixBuffer matrix = Nearest(group);
      Improve(sweeps, matrix);
      for (int64_t row = 0; row < kOut; ++row) {
        const double error = ErrorOf(matrix, row);
        EXPECT_LE(error, before[row] * (1 + 1e-4)) << sweeps << " " << row;  // f32 gradients
        before[row] = error;
      }
    }
  }
}

TEST_P(QuantEaseTest, AtTheEndNoSingleCodeCanBeChangedForTheBetter) {
  QuantizedMatrixBuffer matrix = Nearest(16);
  Improve(100, matrix);
  const QuantizedMatrix& m = matrix.view();
  const FormatInfo& info = Info(GetParam());
  for (int64_t row = 0; row < kOut; ++row) {
    std::vector<float> q(kIn);
    DequantizeRow(matrix.view(), row, q.data());
    const double error = ErrorWith(q, row);
    for (int64_t i = 0; i < kIn; ++i) {
      const float scale = matrix.Scales(row)[i / 16], kept = q[i];
      for (const float step : {-scale, scale}) {
        const float code = (kept + step - m.MinimumOf(row, i / 16)) / scale + m.ZeroOf(row, i / 16);
        if (code < static_cast<float>(info.min_code) - 0.5f || code > static_cast<float>(info.max_code) + 0.5f)
          continue;
        q[i] = kept + step;
        EXPECT_GE(ErrorWith(q, row), error * (1 - 1e-4)) << row << " " << i;
      }
      q[i] = kept;
    }
  }
}

TEST_P(QuantEaseTest, ScalesAreTheLeastSquaresOnes) {
  // Many sweeps: codes stand still, so the scales were fitted to these very codes.
  QuantizedMatrixBuffer matrix = Nearest(16);
  Improve(100, matrix);
  for (int64_t row = 0; row < kOut; ++row) {
    const double error = ErrorOf(matrix, row);
    for (int64_t g = 0; g < kIn / 16; ++g) {
      const float kept = matrix.Scales(row)[g];
      for (const float by : {0.999f, 1.001f}) {
        matrix.Scales(row)[g] = kept * by;
        EXPECT_GE(ErrorOf(matrix, row), error * (1 - 1e-6)) << row << " " << g;
      }
      matrix.Scales(row)[g] = kept;
    }
  }
}

TEST_P(QuantEaseTest, BetterThanGptqAloneAndTheSameOnAnyNumberOfThreads) {
  const auto read = [&](int64_t row, float* y) { Read(row, y); };
  QuantizedMatrixBuffer gptq(GetParam(), kOut, kIn, 16);
  GptqFactor(hessian_, kIn, kGptqDamping, "test").Round(read, EndsBy(ClipChoice::kAbsmax, gptq.view().format), gptq);
  double before = 0, after = 0;
  for (int64_t row = 0; row < kOut; ++row) before += ErrorOf(gptq, row);
  std::vector<uint8_t> codes;
  for (const int threads : {1, 3}) {
    SetThreads(threads);
    QuantizedMatrixBuffer improved(GetParam(), kOut, kIn, 16);
    GptqFactor(hessian_, kIn, kGptqDamping, "test")
        .Round(read, EndsBy(ClipChoice::kAbsmax, improved.view().format), improved);
    Improve(20, improved);
    const std::vector<uint8_t> bytes(improved.Codes(0), improved.Codes(0) + improved.code_bytes());
    if (codes.empty()) codes = bytes;
    EXPECT_EQ(bytes, codes);
    after = 0;
    for (int64_t row = 0; row < kOut; ++row) after += ErrorOf(improved, row);
  }
  SetThreads(0);
  EXPECT_LT(after, 0.95 * before);
}

TEST_P(QuantEaseTest, RowsAndGroupsOfZerosStayZero) {
  std::fill_n(w_.begin(), kIn + 16, 0.0f);  // row 0 and the first group of row 1
  QuantizedMatrixBuffer matrix = Nearest(16);
  Improve(5, matrix);
  std::vector<float> q(kIn);
  DequantizeRow(matrix.view(), 0, q.data());
  EXPECT_THAT(q, testing::Each(0.0f));
  DequantizeRow(matrix.view(), 1, q.data());
  EXPECT_THAT(std::span(q).first(16), testing::Each(0.0f));
}

// A sweep over more columns than one product takes, in plain loops of f32 and in their order: code for code. Scales of
// this format do not change.
TEST(QuantEaseSweep, IsThePlainLoops) {
  constexpr int64_t kMany = 160;
  const std::vector<float> noise = RandomNormal(400 * kMany, 3), w = RandomNormal(kOut * kMany, 4);
  std::vector<float> h(kMany * kMany, 0.0f);
  for (int64_t t = 0; t < 400; ++t) {
    for (int64_t i = 0; i < kMany; ++i) {
      for (int64_t j = 0; j < kMany; ++j)
        h[i * kMany + j] += (noise[t * kMany + i] + noise[t * kMany]) * (noise[t * kMany + j] + noise[t * kMany]);
    }
  }
  QuantizedMatrixBuffer matrix(Format::kMxFp4, kOut, kMany, 32);
  for (int64_t row = 0; row < kOut; ++row) RoundRowToNearest(&w[row * kMany], ClipChoice::kAbsmax, matrix, row);
  std::vector<std::vector<float>> expected(kOut, std::vector<float>(kMany)), nearest = expected;
  const auto damping = static_cast<float>(kGptqDamping * MeanOfDiagonal(h, kMany));
  const auto at = [&](int64_t i, int64_t j) { return h[i * kMany + j] + (i == j ? damping : 0.0f); };
  for (int64_t row = 0; row < kOut; ++row) {
    std::vector<float>& codes = expected[row];
    Unpack<float>(Format::kMxFp4, {matrix.Codes(row), matrix.view().RowBytes()}, codes);
    nearest[row] = codes;
    std::vector<float> gradient(kMany, 0.0f);
    const auto scale = [&](int64_t i) { return matrix.view().ScaleOf(row, i / 32); };
    for (int64_t j = 0; j < kMany; ++j) {
      for (int64_t k = 0; k < kMany; ++k)
        gradient[j] += at(std::min(k, j), std::max(k, j)) * (w[row * kMany + k] - scale(k) * codes[k]);
    }
    for (int64_t i = 0; i < kMany; ++i) {
      const float code = Rounded(codes[i] * scale(i) + gradient[i] / at(i, i), 1 / scale(i), Format::kMxFp4);
      const float moved = (codes[i] - code) * scale(i);
      codes[i] = code;
      for (int64_t j = i + 1; j < kMany; ++j) gradient[j] += at(i, j) * moved;
    }
  }
  QuantEase(h, kMany, kGptqDamping, "test")
      .Improve([&](int64_t row, float* y) { std::copy_n(&w[row * kMany], kMany, y); }, 1, matrix);
  for (int64_t row = 0; row < kOut; ++row) {
    std::vector<float> codes(kMany);
    Unpack<float>(Format::kMxFp4, {matrix.Codes(row), matrix.view().RowBytes()}, codes);
    EXPECT_EQ(codes, expected[row]) << row;
    EXPECT_NE(codes, nearest[row]) << row;
  }
}

TEST(QuantEaseMoments, ThatAreNotFiniteAreNamed) {
  EXPECT_THAT(Call([] { QuantEase({1, std::numeric_limits<float>::infinity(), 0, 1}, 2, kGptqDamping, "layer 3"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("layer 3")));
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantEaseTest,
                         testing::Values(Format::kInt8, Format::kInt6, Format::kInt4,
                                         WithRange(Format::kInt4, CodeRange::kFull),
                                         WithRange(Format::kInt4, CodeRange::kZero),
                                         WithRange(Format::kInt6, CodeRange::kMin)),
                         [](const auto& test) {
                           std::string name(Name(test.param));
                           std::ranges::replace(name, '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace tare::quantease_test
