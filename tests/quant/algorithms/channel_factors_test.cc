// SPDX-License-Identifier: Apache-2.0
// Factors by their formula, and clips against a search over the outputs themselves in double. The golden searches of
// whole layers: tests/experiments/quantize/steps/awq_test.cc.
#include "quant/algorithms/channel_factors.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::channel_factors_test {
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

}  // namespace
}  // namespace tare::channel_factors_test
