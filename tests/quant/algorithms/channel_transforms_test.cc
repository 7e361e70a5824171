// SPDX-License-Identifier: Apache-2.0
// Factors by their formula, and clips against a search over the outputs themselves in double. The golden searches of
// whole layers: tests/experiments/quantize/steps/awq_test.cc.
#include "quant/algorithms/channel_transforms.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::channel_transforms_test {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(AwqFactors, FollowTheFormula) {
  EXPECT_THAT(AwqFactors(std::vector{4.0, 0.25, 1.0}, 0), ElementsAre(1, 1, 1));
  // Square roots 2, 0.5, 1, whose largest and smallest have the product 1.
  EXPECT_THAT(AwqFactors(std::vector{4.0, 0.25, 1.0}, 10), ElementsAre(2, 0.5f, 1));
  EXPECT_THAT(AwqFactors(std::vector{16.0, 4.0}, 10), ElementsAre(FloatEq(std::sqrt(2.0f)), FloatEq(std::sqrt(0.5f))));
  // No factor is below 10^-4 before the division.
  EXPECT_THAT(AwqFactors(std::vector{1.0, 1e-30}, 10), ElementsAre(FloatEq(100), FloatEq(0.01f)));
}

TEST(AwqFactors, AChannelThatIsAlwaysZeroKeepsItsWeights) {
  EXPECT_THAT(AwqFactors(std::vector{4.0, 0.0, 0.25}, 10), ElementsAre(2, 1, 0.5f));
  EXPECT_THAT(AwqFactors(std::vector{0.0, 0.0}, 19), ElementsAre(1, 1));
}

constexpr int64_t kIn = 48, kOut = 19, kTokens = 90;

class AwqEndsTest : public testing::TestWithParam<std::tuple<Format, int64_t>> {
 protected:
  AwqEndsTest() : h_(kIn * kIn) {
    // A few large inputs, whose weights must not be clipped.
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 0; i < kIn; i += 5) x_[t * kIn + i] *= 8;
    }
    for (int64_t i = 0; i < kIn; ++i) {
      for (int64_t j = 0; j < kIn; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < kTokens; ++t) sum += double{x_[t * kIn + i]} * double{x_[t * kIn + j]};
        h_[i * kIn + j] = static_cast<float>(sum);
      }
    }
  }

  Format format() const { return std::get<0>(GetParam()); }
  int64_t group() const { return std::get<1>(GetParam()); }
  void Read(int64_t row, float* y) const { std::copy_n(w_.data() + row * kIn, kIn, y); }
  std::vector<Ends> Searched() const {
    return AwqEnds([&](int64_t row, float* y) { Read(row, y); },
                   {.format = format(), .out = kOut, .in = kIn, .group = group()}, h_);
  }

  // What the group's part of the outputs loses, with scales of these ends, by the scalar rounding.
  double LossOf(int64_t row, int64_t g, Ends ends) const {
    const GroupScale scale = GroupScaleFor(ends, format(), ends.high);
    double sum = 0;
    for (int64_t t = 0; t < kTokens; ++t) {
      double y = 0;
      for (int64_t i = g * group(); i < (g + 1) * group(); ++i) {
        const float w = w_[row * kIn + i];
        y += (double{ValueOf(RoundedIn(w, scale, format()), scale)} - double{w}) * double{x_[t * kIn + i]};
      }
      sum += y * y;
    }
    return sum;
  }

  std::vector<float> x_ = RandomNormal(kTokens * kIn, 1), w_ = RandomNormal(kOut * kIn, 2), h_;
};

TEST_P(AwqEndsTest, AreThoseOfTheLeastLossOfOutputs) {
  const std::vector<Ends> ends = Searched();
  const int64_t groups = kIn / group();
  int clipped = 0;
  for (int64_t row = 0; row < kOut; ++row) {
    for (int64_t g = 0; g < groups; ++g) {
      const Ends widest = EndsOf(std::span(w_).subspan(row * kIn + g * group(), group()), format());
      const float largest = std::max(-widest.low, widest.high);
      double least = HUGE_VAL;
      for (int i = 0; i < 10; ++i) {
        const float kept = largest * (1.0f - static_cast<float>(i) / 20);
        least = std::min(least, LossOf(row, g, {std::max(widest.low, -kept), std::min(widest.high, kept)}));
      }
      const Ends chosen = ends[row * groups + g];
      // H and the products are in f32: two losses that close may be taken for each other.
      EXPECT_LE(LossOf(row, g, chosen), least * (1 + 1e-4)) << row << " " << g;
      clipped += chosen.high < widest.high || chosen.low > widest.low;
    }
  }
  EXPECT_GT(clipped, kOut * groups / 4);
}

TEST_P(AwqEndsTest, SameOnAnyNumberOfThreads) {
  SetThreads(1);
  const std::vector<Ends> one = Searched();
  SetThreads(3);
  const std::vector<Ends> three = Searched();
  SetThreads(0);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].low, three[i].low);
    EXPECT_EQ(one[i].high, three[i].high);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, AwqEndsTest,
                         testing::Combine(testing::Values(Format::kInt4, WithRange(Format::kInt4, CodeRange::kZero),
                                                          WithRange(Format::kInt4, CodeRange::kFull),
                                                          WithRange(Format::kInt4, CodeRange::kMin), Format::kNf4),
                                          testing::Values(int64_t{16}, kIn)));

TEST(AwqEnds, OfAGroupOfZerosAndOfNaN) {
  const std::vector<float> h{2, 1, 1, 2};
  const auto ends = [&](std::vector<float> w) {
    return AwqEnds([&](int64_t, float* y) { std::ranges::copy(w, y); },
                   {.format = Format::kInt4, .out = 1, .in = 2, .group = 2}, h);
  };
  EXPECT_EQ(ends({0, 0}).front().high, 0.0f);
  EXPECT_THAT(Call([&] { ends({1, NAN}); }), testing::ThrowsMessage<Error>(testing::HasSubstr("row 0: got nan at 1")));
}

TEST(SmoothingFactors, ArePowersOfTheLargestMagnitudes) {
  const std::vector<float> input{16, 4, 1}, weight{4, 0.25f, 9};
  EXPECT_THAT(SmoothingFactors(input, weight, 0.5), ElementsAre(FloatEq(2), FloatEq(4), FloatEq(1.0f / 3)));
  EXPECT_THAT(SmoothingFactors(input, weight, 1), ElementsAre(16, 4, 1));
  EXPECT_THAT(SmoothingFactors(input, weight, 0), ElementsAre(0.25f, 4, FloatEq(1.0f / 9)));
}

// At alpha 0.5 both sides have the same largest magnitude afterwards (the paper's figure 5).
TEST(SmoothingFactors, HalfAndHalfMeetInTheMiddle) {
  const std::vector<float> input{100, 0.3f, 7}, weight{0.01f, 2, 0.5f};
  const std::vector<float> s = SmoothingFactors(input, weight, 0.5);
  for (size_t j = 0; j < s.size(); ++j) EXPECT_FLOAT_EQ(input[j] / s[j], weight[j] * s[j]);
}

TEST(SmoothingFactors, DeadChannelsStayAndExtremesAreBounded) {
  const std::vector<float> input{0, 3, 1e-30f, 3e38f}, weight{2, 0, 1e30f, 1e-38f};
  EXPECT_THAT(SmoothingFactors(input, weight, 0.5), ElementsAre(1, 1, FloatEq(1e-5f), FloatEq(1e5f)));
  EXPECT_TRUE(SmoothingFactors({}, {}, 0.5).empty());
}

constexpr int64_t kN = 12;

TEST(ChannelRotation, WithoutALearnedOneItIsTheFirst) {
  const std::vector<float> x = RandomNormal(kN, 1);
  std::vector<float> y(kN), first(kN);
  ChannelRotation(Hadamard(kN, 3)).Rotate(x.data(), y.data());
  Hadamard(kN, 3).Rotate(x.data(), first.data());
  EXPECT_EQ(y, first);
}

TEST(ChannelRotation, TheLearnedOneComesSecond) {
  std::vector<double> q;
  for (const float value : RandomNormal(kN * kN, 2)) q.push_back(value);
  const ChannelRotation rotation(Hadamard(kN, 3), q);
  EXPECT_EQ(rotation.size(), kN);
  const std::vector<float> x = RandomNormal(kN, 1);
  std::vector<float> y = x, first(kN);
  rotation.Rotate(y.data(), y.data());  // in place
  Hadamard(kN, 3).Rotate(x.data(), first.data());
  for (size_t j = 0; j < kN; ++j) {
    double sum = 0;
    for (size_t i = 0; i < kN; ++i) sum += double{first[i]} * q[i * kN + j];
    EXPECT_EQ(y[j], static_cast<float>(sum));
  }
}

// The vector of ones stays, so the mean does, and lengths do; an outlier is spread over all channels.
TEST(ChannelRotation, OneThatKeepsTheMean) {
  for (const int64_t n : {1, 2, 12, 64}) {
    const ChannelRotation rotation = ChannelRotation::KeepingTheMean(Hadamard(n, 3));
    const auto turned = [&](std::vector<float> x) {
      rotation.Rotate(x.data(), x.data());
      return x;
    };
    const auto sum_and_squares = [](const std::vector<float>& x) {
      double sum = 0, squares = 0;
      for (const float value : x) sum += value, squares += double{value} * value;
      return std::pair(sum, squares);
    };
    for (const float one : turned(std::vector<float>(static_cast<size_t>(n), 1.0f))) EXPECT_NEAR(one, 1, 1e-6);
    const std::vector<float> x = RandomNormal(n, 1), y = turned(x);
    const auto [sum, squares] = sum_and_squares(x);
    const auto [new_sum, new_squares] = sum_and_squares(y);
    // Each channel is rounded to f32 twice.
    EXPECT_NEAR(new_sum, sum, 2e-7 * static_cast<double>(n) * std::sqrt(squares)) << n;
    EXPECT_NEAR(new_squares, squares, 1e-6 * squares) << n;
    EXPECT_EQ(y == x, n == 1);
  }
  std::vector<float> outlier(64);
  outlier[5] = 1;
  const ChannelRotation rotation = ChannelRotation::KeepingTheMean(Hadamard(64, 3));
  rotation.Rotate(outlier.data(), outlier.data());
  for (const float x : outlier) EXPECT_LT(std::fabs(x), 0.3);  // 1/8 from the Hadamard matrix
}

using Values = std::vector<double>;

Values Identity(int64_t n) {
  Values q(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) q[static_cast<size_t>(i * n + i)] = 1;
  return q;
}

Values Random(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Values m(static_cast<size_t>(n * n));
  for (double& x : m) x = normal(random);
  return m;
}

Values Product(int64_t n, const Values& a, const Values& b) {
  Values c(a.size(), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return c;
}

Values Turned(int64_t n, const Values& a) {
  Values t(a.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) t[j * n + i] = a[i * n + j];
  }
  return t;
}

double LargestDifference(const Values& a, const Values& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// In the plane all skew directions are one: Q turns by 2 atan(angle / 2) against the gradient, whatever its size.
TEST(Cayley, TurnsThePlaneByTheAngle) {
  for (const double size : {1e-9, 1.0, 1e9}) {
    Values q = Identity(2);
    CayleyStep(2, Values{5, size, 0, -3}, 0.3, q);
    const double turn = 2 * std::atan(0.15);
    EXPECT_LT(LargestDifference(q, {std::cos(turn), -std::sin(turn), std::sin(turn), std::cos(turn)}), 1e-15) << size;
  }
}

TEST(Cayley, SolvesItsEquation) {
  constexpr int64_t kSize = 7;
  const Values m = Random(kSize, 1);
  Values c = Identity(kSize), k(m.size());
  CayleyStep(kSize, m, 0.8, c);
  double squares = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) {
      k[i * kSize + j] = m[i * kSize + j] - m[j * kSize + i];
      squares += k[i * kSize + j] * k[i * kSize + j];
    }
  }
  Values sum = Identity(kSize), difference = sum;  // I + K and I - K
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] *= 0.4 * std::sqrt(kSize / squares);
    sum[i] += k[i];
    difference[i] -= k[i];
  }
  EXPECT_LT(LargestDifference(Product(kSize, sum, c), difference), 1e-14);
  Values q = Random(kSize, 2), from = q;
  CayleyStep(kSize, m, 0.8, q);
  EXPECT_LT(LargestDifference(q, Product(kSize, from, c)), 1e-14) << "on the right of what was there";
}

// A step's factor is off by the solver's rounding: at most n 2^-53 times a few for I + K, whose condition is at most
// sqrt(1 + |K|^2). Steps add up.
TEST(Cayley, StaysOrthogonalInManySteps) {
  constexpr int64_t kSize = 24, kSteps = 300;
  Values q = Identity(kSize);
  for (int64_t step = 0; step < kSteps; ++step) CayleyStep(kSize, Random(kSize, static_cast<uint64_t>(step)), 0.5, q);
  EXPECT_LT(LargestDifference(Product(kSize, Turned(kSize, q), q), Identity(kSize)), kSteps * kSize * 0x1p-53);
  EXPECT_GT(LargestDifference(q, Identity(kSize)), 0.5) << "turned at all";
}

TEST(Cayley, ASymmetricGradientIsNoDirection) {
  constexpr int64_t kSize = 5;
  Values m = Random(kSize, 1), q = Random(kSize, 2);
  const Values before = q, turned = Turned(kSize, m);
  for (size_t i = 0; i < m.size(); ++i) m[i] += turned[i];
  CayleyStep(kSize, m, 0.5, q);
  EXPECT_EQ(q, before);
}

// f(Q) = -tr(T^T Q) with an orthogonal T has its least value at T, and <-Q^T T, Q^T dQ> = df.
TEST(Cayley, DescendsToAnOrthogonalTarget) {
  constexpr int64_t kSize = 8, kSteps = 400;
  Values target = Identity(kSize), q = Identity(kSize);
  CayleyStep(kSize, Random(kSize, 3), 1.0, target);
  for (int64_t step = 0; step < kSteps; ++step) {
    Values m = Product(kSize, Turned(kSize, q), target);
    for (double& x : m) x = -x;
    CayleyStep(kSize, m, 0.05 * (1 - static_cast<double>(step) / kSteps), q);
  }
  EXPECT_LT(LargestDifference(q, target), 1e-3);
}

constexpr size_t kGroup = 16;

double MagnitudeOf(Format format, const std::vector<double>& w) {
  double absmax = 0, sum = 0, squares = 0, low = w[0], high = w[0];
  for (const double x : w) {
    absmax = std::max(absmax, std::abs(x));
    sum += std::abs(x);
    squares += x * x;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (format == Format::kTernary) return sum / kGroup;
  if (format == Format::kE8P) return std::sqrt(squares / kGroup);
  if (Info(format).range == CodeRange::kZero) return std::max(high, 0.0) - std::min(low, 0.0);
  return Info(format).range == CodeRange::kMin ? high - low : absmax;
}

// f32 weights of magnitude 1 are exact in double; the sums' and the result's rounding is all that differs, and the
// curvature of the root of squares over the difference.
TEST(ErrorGrowth, IsTheDerivativeOfItsFormula) {
  const std::vector<float> e = RandomNormal(kGroup, 2), p = RandomNormal(kGroup, 3);
  for (const Format& format :
       std::vector<Format>{Format::kInt4, Format::kInt2, Format::kMxFp4, Format::kTernary, Format::kE8P,
                           WithRange(Format::kInt4, CodeRange::kFull), WithRange(Format::kInt4, CodeRange::kZero),
                           WithRange(Format::kInt2, CodeRange::kMin)}) {
    for (const float offset : {0.0f, 5.0f, -5.0f}) {  // of one sign, the range of a zero point has one end at 0
      std::vector<float> w = RandomNormal(kGroup, 1), gradient(kGroup, 1.0f);
      for (float& x : w) x += offset;
      AddErrorGrowth(format, w, e, p, gradient);
      const std::vector<double> at(w.begin(), w.end());
      for (size_t k = 0; k < kGroup; ++k) {
        constexpr double kStep = 1e-5;
        std::vector<double> more = at, less = at;
        more[k] += kStep;
        less[k] -= kStep;
        const double growth = (MagnitudeOf(format, more) - MagnitudeOf(format, less)) / (2 * kStep);
        double along = 0;
        for (size_t i = 0; i < kGroup; ++i) along += double{p[i]} * double{e[i]};
        EXPECT_NEAR(gradient[k], 1 + along * growth / MagnitudeOf(format, at), 1e-6 * std::abs(along) + 1e-6)
            << Name(format) << " " << k;
      }
    }
  }
}

TEST(ErrorGrowth, AGroupOfZerosAddsNothing) {
  const std::vector<float> w(kGroup, 0.0f), e(kGroup, 1.0f), p(kGroup, 1.0f);
  for (const Format& format :
       std::vector<Format>{Format::kInt4, Format::kTernary, Format::kE8P, WithRange(Format::kInt4, CodeRange::kZero),
                           WithRange(Format::kInt4, CodeRange::kMin)}) {
    std::vector<float> gradient(kGroup, 0.0f);
    AddErrorGrowth(format, w, e, p, gradient);
    EXPECT_EQ(gradient, std::vector<float>(kGroup, 0.0f)) << Name(format);
  }
}

}  // namespace
}  // namespace tare::channel_transforms_test
