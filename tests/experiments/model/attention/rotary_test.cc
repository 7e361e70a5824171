// SPDX-License-Identifier: Apache-2.0
// Cosines and sines against transformers 5.12.1.
#include "experiments/model/attention/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tare::rotary_test {
namespace {

constexpr double kUnit = 0x1p-24;

struct Angles {
  int64_t position;
  std::vector<float> cosine, sine;
};

// LlamaRotaryEmbedding(config)(x, positions), linear scaling. A frequency that is off by a unit turns position p by
// 2 u p frequency, and rounding the angle by half a unit adds as much again at most.
TEST(RotaryTest, CosinesAndSinesAreTransformers) {
  const Angles expected[] = {{0, {1.0f, 1.0f, 1.0f, 1.0f}, {0.0f, 0.0f, 0.0f, 0.0f}},
                             {1,
                              {0.87758261f, 0.999116242f, 0.999993682f, 0.99999994f},
                              {0.47942555f, 0.0420324355f, 0.00353552657f, 0.000297301769f}},
                             {37,
                              {0.939524889f, 0.0151372887f, 0.991455972f, 0.999939501f},
                              {-0.3424806f, 0.99988544f, 0.130441979f, 0.0109999441f}},
                             {4095,
                              {0.68338275f, -0.817325532f, -0.334283739f, 0.34603864f},
                              {-0.73006022f, 0.576176167f, 0.942472458f, 0.938220263f}}};
  const RotaryConfig config{.type = RotaryConfig::Type::kLinear, .theta = 20000.0, .factor = 2.0};
  const std::vector<float> frequencies = RotaryFrequencies(config, 8);
  RotaryTable table(config, 8);
  table.Reserve(4096);
  for (const Angles& e : expected) {
    for (int i = 0; i < 4; ++i) {
      const double bound = kUnit * (4 + 4 * static_cast<double>(e.position) * frequencies[i]);
      EXPECT_NEAR(table.Cosine(e.position)[i], e.cosine[i], bound) << e.position << " " << i;
      EXPECT_NEAR(table.Sine(e.position)[i], e.sine[i], bound) << e.position << " " << i;
    }
  }
}

TEST(RotaryTest, LongSequencesHaveAnglesOfTheirOwn) {
  RotaryConfig longrope{.type = RotaryConfig::Type::kLongRope, .original_positions = 4, .share = 0.5};
  longrope.short_divisors = {1, 2}, longrope.long_divisors = {4, 8}, longrope.attention_factor = 2;
  RotaryTable table(longrope, 8);
  EXPECT_EQ(table.channels(), 4);
  table.Reserve(6);
  for (const int64_t tokens : {4, 5}) {
    const std::vector<float> frequencies = RotaryFrequencies(longrope, 8, tokens);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(table.Sine(3, tokens)[i], std::sin(3 * frequencies[i]) * 2);
  }
  EXPECT_NE(table.Sine(3, 4)[0], table.Sine(3, 5)[0]);
}

TEST(RotaryTest, GrowingTheTableChangesNothing) {
  RotaryTable grown({}, 16), whole({}, 16);
  for (const int64_t size : {1, 5, 5, 3, 64, 200}) grown.Reserve(size);
  whole.Reserve(200);
  for (int64_t p = 0; p < 200; ++p) {
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(grown.Cosine(p)[i], whole.Cosine(p)[i]);
      ASSERT_EQ(grown.Sine(p)[i], whole.Sine(p)[i]);
    }
  }
}

}  // namespace
}  // namespace tare::rotary_test
