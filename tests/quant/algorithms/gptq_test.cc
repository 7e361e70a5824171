// SPDX-License-Identifier: Apache-2.0
// Compared with the definition: after each rounding the remaining weights minimise the error (w - q) H (w - q)^T, found
// here by solving for them from scratch in double.
#include "quant/algorithms/gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::algorithms_gptq_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SecondMoments, MeanOfTheDiagonal) {
  EXPECT_EQ(MeanOfDiagonal({1, 9, 9, 9, 2, 9, 9, 9, 6}, 3), 3.0);
  EXPECT_EQ(MeanOfDiagonal({5}, 1), 5.0);
  EXPECT_EQ(MeanOfDiagonal({0, 0, 0, 0}, 2), 1.0) << "inputs that were always 0";
}

// Inputs that go together, each of another size.
std::vector<float> Hessian(int64_t in, int64_t samples, unsigned seed) {
  const std::vector<float> noise = RandomNormal(static_cast<size_t>(samples * in), seed);
  Eigen::MatrixXd x(samples, in);
  for (int64_t s = 0; s < samples; ++s) {
    for (int64_t i = 0; i < in; ++i)
      x(s, i) = (noise[s * in + i] + 2 * noise[s * in]) * (0.2 + static_cast<double>((i * 7) % 11));
  }
  const Eigen::MatrixXd h = x.transpose() * x;
  std::vector<float> hessian(static_cast<size_t>(in * in));
  for (int64_t i = 0; i < in * in; ++i) hessian[i] = static_cast<float>(h.data()[i]);
  return hessian;
}

Eigen::MatrixXd Damped(const std::vector<float>& hessian, int64_t in) {
  Eigen::MatrixXd h(in, in);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j < in; ++j) h(i, j) = double{hessian[std::min(i, j) * in + std::max(i, j)]};
  }
  const double mean = h.diagonal().mean();
  h.diagonal().array() += kGptqDamping * mean;
  return h;
}

// R of H = R R^T in the order of work, from the factor of the matrix turned about: f32, as Gptq has it.
struct PlainFactor {
  PlainFactor(const std::vector<float>& hessian, int64_t in) : n(in), order(static_cast<size_t>(in)), lower(in * in) {
    std::iota(order.begin(), order.end(), int64_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t i) { return hessian[i * in + i]; });
    double mean = 0;
    for (int64_t i = 0; i < n; ++i) mean += double{hessian[i * n + i]} / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const auto [a, b] = std::minmax(order[n - 1 - i], order[n - 1 - j]);
        lower[i * n + j] = hessian[a * n + b];
      }
      lower[i * n + i] = static_cast<float>(double{lower[i * n + i]} + kGptqDamping * mean);
    }
    FactorInPlace(n, lower.data(), "moments");
  }
  float At(int64_t i, int64_t j) const { return lower[(n - 1 - i) * n + n - 1 - j]; }

  int64_t n;
  std::vector<int64_t> order;
  std::vector<float> lower;
};

// What the definition does at an input, in the order of work, whatever the row.
struct Step {
  int64_t i;
  std::vector<int64_t> rest;  // inputs that have no code yet
  Eigen::VectorXd d;          // of these: H_rest d = -H_rest,i
};

std::vector<Step> StepsOf(const std::vector<float>& hessian, int64_t in) {
  const Eigen::MatrixXd h = Damped(hessian, in);
  std::vector<int64_t> rest(static_cast<size_t>(in));
  std::iota(rest.begin(), rest.end(), int64_t{0});
  std::vector<Step> steps;
  while (!rest.empty()) {
    const int64_t i = *std::ranges::max_element(rest, {}, [&](int64_t j) { return hessian[j * in + j]; });
    std::erase(rest, i);
    steps.push_back({i, rest, rest.empty() ? Eigen::VectorXd() : -h(rest, rest).llt().solve(h(rest, i))});
  }
  return steps;
}

// Codes of one row by the definition: the others move to the minimum of the error with an input held at its code.
std::vector<float> ByDefinition(const std::vector<float>& row, const std::vector<Step>& steps,
                                const std::vector<float>& scales, int64_t group, Format format) {
  std::vector<double> w(row.begin(), row.end());
  std::vector<float> codes(row.size());
  for (const auto& [i, rest, d] : steps) {
    const double scale = double{scales[i / group]}, largest = Info(format).max_code;
    codes[i] = static_cast<float>(std::clamp(std::nearbyint(w[i] / scale), -largest, largest));
    const double moved = double{codes[i]} * scale - w[i];
    for (size_t p = 0; p < rest.size(); ++p) w[rest[p]] += d.data()[p] * moved;
  }
  return codes;
}

double WeightedError(const std::vector<float>& row, const std::vector<float>& rounded, const Eigen::MatrixXd& h) {
  Eigen::VectorXd e(row.size());
  for (size_t i = 0; i < row.size(); ++i) e(static_cast<int64_t>(i)) = double{row[i]} - double{rounded[i]};
  return e.dot(h * e);
}

// W [out, in] in groups.
QuantizedMatrixBuffer RoundedBy(const GptqFactor& factor, const std::vector<float>& w, Format format, int64_t group,
                                ClipChoice clips = ClipChoice::kAbsmax) {
  const int64_t in = factor.in();
  QuantizedMatrixBuffer matrix(format, std::ssize(w) / in, in, group, 5.0f);
  factor.Round([&](int64_t row, float* y) { std::copy_n(w.data() + row * in, in, y); }, EndsBy(clips, format), matrix);
  return matrix;
}

std::vector<float> CodesOf(const QuantizedMatrixBuffer& matrix, int64_t row) {
  const QuantizedMatrix& m = matrix.view();
  std::vector<float> codes(static_cast<size_t>(m.in));
  Unpack<float>(m.format, {m.codes + row * m.RowBytes(), m.RowBytes()}, codes);
  return codes;
}

std::vector<float> RowOf(const QuantizedMatrixBuffer& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.view().in));
  DequantizeRow(matrix.view(), row, values.data());
  return values;
}

TEST(Gptq, CodesAreTheDefinitions) {
  for (const auto& [in, group] : {std::pair{1, 1}, {16, 16}, {48, 16}, {64, 32}}) {
    constexpr int64_t kOut = 19;
    const std::vector<float> hessian = Hessian(in, 3 * in, 1), w = RandomNormal(static_cast<size_t>(kOut * in), 2);
    const std::vector<Step> steps = StepsOf(hessian, in);
    for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
      QuantizedMatrixBuffer matrix = RoundedBy({hessian, in, kGptqDamping, "test"}, w, format, group);
      int64_t different = 0;
      for (int64_t row = 0; row < kOut; ++row) {
        const std::vector<float> values(w.begin() + row * in, w.begin() + (row + 1) * in);
        const std::vector<float> scales(matrix.Scales(row), matrix.Scales(row) + in / group);
        const std::vector<float> expected = ByDefinition(values, steps, scales, group, format);
        different += CodesOf(matrix, row) != expected;  // a value within f32's rounding of a tie takes its row along
      }
      EXPECT_LE(different, 1) << Name(format) << " " << in;
    }
  }
}

// The codes of more columns than one product takes, with a last panel that is not full, are the formula's in plain
// loops, in f32 and in its order.
TEST(Gptq, CodesAreThePlainLoops) {
  constexpr int64_t kIn = 300, kOut = 35, kGroup = 60;
  const std::vector<float> hessian = Hessian(kIn, 400, 8), w = RandomNormal(kOut * kIn, 9);
  QuantizedMatrixBuffer matrix = RoundedBy({hessian, kIn, kGptqDamping, "test"}, w, Format::kInt4, kGroup);
  const PlainFactor factor(hessian, kIn);
  for (int64_t row = 0; row < kOut; ++row) {
    std::vector<float> sums(kIn, 0.0f), expected(kIn);
    for (int64_t i = 0; i < kIn; ++i) {
      const int64_t at = factor.order[i];
      const float scale = matrix.Scales(row)[at / kGroup], value = w[row * kIn + at] + sums[i] / factor.At(i, i);
      float absmax = 0;
      for (int64_t k = 0; k < kGroup; ++k) absmax = std::max(absmax, std::abs(w[row * kIn + at / kGroup * kGroup + k]));
      expected[at] = Rounded(value, ScaleFor(absmax, Format::kInt4).inv, Format::kInt4);
      const float error = w[row * kIn + at] - expected[at] * scale;
      for (int64_t j = i + 1; j < kIn; ++j) sums[j] += factor.At(i, j) * error;
    }
    EXPECT_EQ(CodesOf(matrix, row), expected) << row;
  }
}

// The codes are the paper's, in double: U of H^-1 = U^T U, and weights that move; kMoved: each group's scale is taken
// at its first input, from its moved weights. Groups begin within a panel, and behind the columns of one product.
// Only a value within f32's rounding of a tie may fall otherwise, one in some thousands, and then takes its row along.
TEST(Gptq, CodesAreThePapers) {
  for (const auto& [in, group, by] : {std::tuple{int64_t{140}, int64_t{70}, GptqOrder::kFalling},
                                      {140, 20, GptqOrder::kMoved},
                                      {200, 50, GptqOrder::kMoved},
                                      {48, 48, GptqOrder::kMoved}}) {
    constexpr int64_t kOut = 40;
    const int64_t n = in;
    const std::vector<float> hessian = Hessian(n, n + 80, 10), w = RandomNormal(static_cast<size_t>(kOut * n), 11);
    QuantizedMatrixBuffer matrix = RoundedBy({hessian, n, kGptqDamping, "test", 1, by}, w, Format::kInt4, group);
    std::vector<int64_t> order = PlainFactor(hessian, n).order;
    if (by == GptqOrder::kMoved) std::ranges::sort(order);
    const Eigen::MatrixXd upper = Damped(hessian, n)(order, order).inverse().llt().matrixU();
    int64_t different = 0;
    for (int64_t row = 0; row < kOut; ++row) {
      Eigen::VectorXd moved(n);
      for (int64_t i = 0; i < n; ++i) moved(i) = double{w[row * n + order[i]]};
      std::vector<float> expected(static_cast<size_t>(n));
      bool same = true;
      for (int64_t i = 0; i < n; ++i) {
        const double scale = double{matrix.Scales(row)[order[i] / group]};
        if (by == GptqOrder::kMoved && i % group == 0)
          same = same && std::abs(moved.segment(i, group).cwiseAbs().maxCoeff() / 7 / scale - 1) < 1e-4;
        const double code = std::clamp(std::nearbyint(moved(i) / scale), -7.0, 7.0);
        expected[order[i]] = static_cast<float>(code);
        moved.tail(n - i) -= (moved(i) - code * scale) / upper(i, i) * upper.row(i).tail(n - i).transpose();
      }
      different += !same || CodesOf(matrix, row) != expected;
    }
    EXPECT_LE(different, 1) << n << " in groups of " << group;
  }
}

TEST(Gptq, ErrorOnTheInputsIsSmallerThanRoundToNearests) {
  constexpr int64_t kIn = 120, kOut = 40;  // 120: a last block of 24
  const std::vector<float> hessian = Hessian(kIn, 300, 3);
  const Eigen::MatrixXd h = Damped(hessian, kIn);
  const std::vector<float> w = RandomNormal(kOut * kIn, 4);
  for (const auto& [format, group] : {std::pair<Format, int>{Format::kInt4, 60},
                                      {Format::kMxFp4, 32},
                                      {Format::kNvFp4, 16},
                                      {Format::kIf4, 16},
                                      {Format::kNf4, 60},
                                      {WithRange(Format::kInt4, CodeRange::kFull), 60},
                                      {WithRange(Format::kInt4, CodeRange::kZero), 60},
                                      {WithRange(Format::kInt4, CodeRange::kMin), 60}}) {
    QuantizedMatrixBuffer gptq = RoundedBy({hessian, kIn, kGptqDamping, "test"}, w, format, group),
                          nearest(format, kOut, kIn, group, 5.0f);
    double ours = 0, theirs = 0;
    for (int64_t row = 0; row < kOut; ++row) {
      const std::vector<float> values(w.begin() + row * kIn, w.begin() + (row + 1) * kIn);
      RoundRowToNearest(values.data(), ClipChoice::kAbsmax, nearest, row);
      ours += WeightedError(values, RowOf(gptq, row), h);
      theirs += WeightedError(values, RowOf(nearest, row), h);
    }
    EXPECT_LT(ours, 0.6 * theirs) << Name(format);
  }
}

// Eight at a time, in double: after each eight the others move to where the error is least, and the nearest point to
// what the eight have moved to is theirs.
TEST(Gptq, PointsOfALatticeAreTheDefinitions) {
  constexpr int64_t kIn = 96, kOut = 35, kGroup = 32;
  const std::vector<float> hessian = Hessian(kIn, 400, 12), w = RandomNormal(kOut * kIn, 13);
  const GptqFactor factor(hessian, kIn, kGptqDamping, "test", kLatticeWidth);
  QuantizedMatrixBuffer matrix = RoundedBy(factor, w, Format::kE8P, kGroup), nearest(Format::kE8P, kOut, kIn, kGroup);
  const Eigen::MatrixXd h = Damped(hessian, kIn);
  std::vector<int64_t> blocks(kIn / 8);
  std::iota(blocks.begin(), blocks.end(), int64_t{0});
  std::ranges::stable_sort(blocks, std::ranges::greater(), [&](int64_t block) {
    double sum = 0;
    for (int64_t i = 8 * block; i < 8 * block + 8; ++i) sum += double{hessian[i * kIn + i]};
    return sum;
  });
  double ours = 0, theirs = 0, different = 0;
  for (int64_t row = 0; row < kOut; ++row) {
    const std::vector<float> values(w.begin() + row * kIn, w.begin() + (row + 1) * kIn);
    Eigen::VectorXd moved(kIn);
    for (int64_t i = 0; i < kIn; ++i) moved(i) = double{values[i]};
    std::vector<int64_t> rest(kIn);
    std::iota(rest.begin(), rest.end(), int64_t{0});
    std::vector<float> expected(kIn);
    for (const int64_t block : blocks) {
      const float scale = matrix.Scales(row)[8 * block / kGroup];
      float scaled[8], point[8];
      for (int64_t j = 0; j < 8; ++j) scaled[j] = static_cast<float>(moved(8 * block + j) / double{scale});
      NearestLatticePoint(scaled, point);
      Eigen::VectorXd change(8);
      std::vector<int64_t> eight(8);
      for (int64_t j = 0; j < 8; ++j) {
        eight[j] = 8 * block + j;
        expected[eight[j]] = point[j] * scale;
        change(j) = double{expected[eight[j]]} - moved(eight[j]);
      }
      std::erase_if(rest, [&](int64_t i) { return i / 8 == block; });
      if (rest.empty()) break;
      moved(rest) -= h(rest, rest).llt().solve(h(rest, eight) * change);
    }
    different += RowOf(matrix, row) != expected;
    ours += WeightedError(values, RowOf(matrix, row), h);
    RoundRowToNearest(values.data(), ClipChoice::kAbsmax, nearest, row);
    theirs += WeightedError(values, RowOf(nearest, row), h);
  }
  EXPECT_LE(different, 1);  // a value within f32's rounding of a border takes its row along
  EXPECT_LT(ours, 0.6 * theirs);
}

// Each group's scale is the one of its moved weights, with the weights before at their lattice points, in double.
TEST(Gptq, ScalesOfMovedWeightsOfALattice) {
  constexpr int64_t kIn = 96, kGroup = 32;
  const std::vector<float> hessian = Hessian(kIn, 400, 12), w = RandomNormal(kIn, 13);
  QuantizedMatrixBuffer row =
      RoundedBy({hessian, kIn, kGptqDamping, "test", kLatticeWidth, GptqOrder::kMoved}, w, Format::kE8P, kGroup);
  const std::vector<float> rounded = RowOf(row, 0), scales(row.Scales(0), row.Scales(0) + kIn / kGroup);
  const Eigen::MatrixXd h = Damped(hessian, kIn);
  for (int64_t first = 0; first < kIn; first += kGroup) {
    const int64_t rest = kIn - first;
    Eigen::VectorXd change(first);
    for (int64_t i = 0; i < first; ++i) change(i) = double{rounded[i]} - double{w[i]};
    const Eigen::VectorXd moved = h.bottomRightCorner(rest, rest).llt().solve(h.bottomLeftCorner(rest, first) * change);
    std::vector<float> group(kGroup);
    for (int64_t i = 0; i < kGroup; ++i) group[i] = static_cast<float>(double{w[first + i]} - moved(i));
    row.SetScale(0, first / kGroup, EndsOf(group, Format::kE8P));
    EXPECT_NEAR(row.Scales(0)[first / kGroup], scales[first / kGroup], 1e-4 * scales[first / kGroup]);
  }
}

// The first stored input is rounded to nearest; by falling mean square, the one that counts most.
TEST(Gptq, TheFirstInputIsRoundedToNearest) {
  constexpr int64_t kIn = 48, kOut = 20;
  const std::vector<float> hessian = Hessian(kIn, 200, 14), w = RandomNormal(kOut * kIn, 15);
  int64_t most = 0;
  for (int64_t i = 1; i < kIn; ++i) most = hessian[i * kIn + i] > hessian[most * kIn + most] ? i : most;
  ASSERT_NE(most, 0);
  for (const auto& [order, first] :
       {std::pair{GptqOrder::kStored, int64_t{0}}, {GptqOrder::kMoved, 0}, {GptqOrder::kFalling, most}}) {
    const GptqFactor factor(hessian, kIn, kGptqDamping, "test", 1, order);
    QuantizedMatrixBuffer gptq = RoundedBy(factor, w, Format::kInt4, kIn), nearest(Format::kInt4, kOut, kIn, kIn);
    for (int64_t row = 0; row < kOut; ++row) {
      RoundRowToNearest(w.data() + row * kIn, ClipChoice::kAbsmax, nearest, row);
      EXPECT_EQ(RowOf(gptq, row)[first], RowOf(nearest, row)[first]);
    }
  }
}

// Without correlations there is nothing to make up for.
TEST(Gptq, DiagonalMomentsAreRoundToNearest) {
  constexpr int64_t kIn = 64;
  std::vector<float> hessian(kIn * kIn, 0.0f);
  for (int64_t i = 0; i < kIn; ++i) hessian[i * kIn + i] = i % 5 == 0 ? 0.0f : static_cast<float>(i);  // some dead
  const std::vector<float> w = RandomNormal(3 * kIn, 5);
  for (const CodeRange range : {CodeRange::kOwn, CodeRange::kFull, CodeRange::kZero, CodeRange::kMin}) {
    const Format format = range == CodeRange::kOwn ? Format::kInt4 : WithRange(Format::kInt4, range);
    const GptqFactor factor(hessian, kIn, kGptqDamping, "test");
    QuantizedMatrixBuffer gptq = RoundedBy(factor, w, format, 16, ClipChoice::kLeastSquares),
                          nearest(format, 3, kIn, 16);
    for (int64_t row = 0; row < 3; ++row) {
      RoundRowToNearest(w.data() + row * kIn, ClipChoice::kLeastSquares, nearest, row);
      EXPECT_EQ(CodesOf(gptq, row), CodesOf(nearest, row));
      EXPECT_EQ(RowOf(gptq, row), RowOf(nearest, row)) << Name(format);
    }
  }
}

TEST(Gptq, SameBytesOnAnyNumberOfThreads) {
  constexpr int64_t kIn = 64, kOut = 70;
  const std::vector<float> hessian = Hessian(kIn, 300, 6), w = RandomNormal(kOut * kIn, 7);
  std::vector<uint8_t> first;
  for (const int threads : {1, 2, 7}) {
    SetThreads(threads);
    QuantizedMatrixBuffer m = RoundedBy({hessian, kIn, kGptqDamping, "test"}, w, Format::kInt6, 32);
    const std::vector<uint8_t> bytes(m.Codes(0), m.Codes(0) + m.code_bytes());
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
  SetThreads(0);
}

TEST(Gptq, BadMomentsAndWeightsAreNamed) {
  std::vector<float> hessian = {1, std::numeric_limits<float>::quiet_NaN(), 0, 1};
  EXPECT_THAT(Call([&] { GptqFactor(hessian, 2, kGptqDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("layer 3")));
  hessian = {1, 5, 5, 1};
  EXPECT_THAT(Call([&] { GptqFactor(hessian, 2, kGptqDamping, "layer 3"); }),
              ThrowsMessage<Error>(HasSubstr("not positive definite")));
  hessian = {0, 0, 0, 0};
  QuantizedMatrixBuffer matrix(Format::kInt8, 1, 2, 2);
  EXPECT_THAT(Call([&] {
                GptqFactor(hessian, 2, kGptqDamping, "x")
                    .Round([](int64_t, float* y) { y[0] = 1, y[1] = std::numeric_limits<float>::infinity(); },
                           EndsBy(ClipChoice::kAbsmax, matrix.view().format), matrix);
              }),
              ThrowsMessage<Error>(HasSubstr("row 0")));
}

}  // namespace
}  // namespace tare::algorithms_gptq_test
