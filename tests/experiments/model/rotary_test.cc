// SPDX-License-Identifier: Apache-2.0
// Frequencies against the formulas in double and against transformers 5.12.1; cosines and sines against transformers.
//
// The error of a frequency in f32: its exponent is rounded by half a unit, which theta^e multiplies by ln(theta); the
// power adds one unit; a division half a unit. So (ln(theta) + 3) u with u = 2^-24, and a division by the factor adds
// one.
#include "experiments/model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tare {
namespace {

constexpr double kUnit = 0x1p-24;

double Plain(double theta, int i, int d) { return std::pow(theta, -2.0 * i / d); }

double Llama3(double frequency, const RotaryConfig& c) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength > c.original_positions / c.low_frequency_factor) return frequency / c.factor;
  if (wavelength < c.original_positions / c.high_frequency_factor) return frequency;
  const double smooth =
      (c.original_positions / wavelength - c.low_frequency_factor) / (c.high_frequency_factor - c.low_frequency_factor);
  return (1 - smooth) * frequency / c.factor + smooth * frequency;
}

TEST(RotaryTest, DefaultAndLinearFollowTheFormula) {
  for (const double theta : {10000.0, 20000.0, 500000.0, 7.0}) {
    for (const int d : {2, 8, 12, 64, 128}) {
      const std::vector<float> plain = RotaryFrequencies({.theta = theta}, d);
      const std::vector<float> linear =
          RotaryFrequencies({.type = RotaryConfig::Type::kLinear, .theta = theta, .factor = 3.0}, d);
      ASSERT_EQ(plain.size(), static_cast<size_t>(d / 2));
      for (int i = 0; i < d / 2; ++i) {
        const double expected = Plain(theta, i, d), bound = (std::log(theta) + 4) * kUnit;
        EXPECT_NEAR(plain[i], expected, bound * expected) << theta << " " << d << " " << i;
        EXPECT_NEAR(linear[i], expected / 3, bound * expected / 3) << theta << " " << d << " " << i;
      }
    }
  }
}

// On the ramp the smoothing weight s = (L / wavelength - low) / (high - low) is off by the frequency's relative error
// times high / (high - low), and weighs f (1 - 1 / factor) against a result of at least f / factor.
TEST(RotaryTest, Llama3FollowsTheFormulaOnAllThreePieces) {
  for (const double original : {32.0, 8192.0}) {
    const RotaryConfig c{
        RotaryConfig::Type::kLlama3, RotaryConfig::Layout::kHalfSplit, 500000.0, 8.0, 1.0, 4.0, original};
    const int d = 128;
    const std::vector<float> actual = RotaryFrequencies(c, d);
    int kept = 0, divided = 0;
    for (int i = 0; i < d / 2; ++i) {
      const double plain = Plain(c.theta, i, d), expected = Llama3(plain, c);
      const double bound = (std::log(c.theta) + 8) * kUnit * (1 + c.high_frequency_factor / 3.0 * c.factor);
      EXPECT_NEAR(actual[i], expected, bound * expected) << original << " " << i;
      kept += expected == plain;
      divided += expected == plain / c.factor;
    }
    EXPECT_GT(kept, 0);
    EXPECT_GT(divided, 0);
    EXPECT_LT(kept + divided, d / 2);
  }
}

void ExpectWithinUnits(const std::vector<float>& actual, const std::vector<float>& expected, double units) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], units * kUnit * expected[i]) << i;
}

// LlamaRotaryEmbedding(config).inv_freq. PyTorch's power may round the other way: one unit in the last place is 2 u.
TEST(RotaryTest, FrequenciesAreTransformers) {
  ExpectWithinUnits(RotaryFrequencies({.theta = 10000.0}, 8), {1.0f, 0.100000001f, 0.00999999978f, 0.00100000005f}, 4);
  ExpectWithinUnits(RotaryFrequencies({.type = RotaryConfig::Type::kLinear, .theta = 20000.0, .factor = 2.0}, 8),
                    {0.5f, 0.0420448221f, 0.00353553402f, 0.000297301769f}, 4);
  ExpectWithinUnits(
      RotaryFrequencies({RotaryConfig::Type::kLlama3, RotaryConfig::Layout::kHalfSplit, 500000.0, 8.0, 1.0, 4.0, 8192},
                        16),
      {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f, 3.42810235e-05f, 6.64786967e-06f,
       1.28917316e-06f},
      8);
  ExpectWithinUnits(
      RotaryFrequencies({RotaryConfig::Type::kLlama3, RotaryConfig::Layout::kHalfSplit, 500000.0, 8.0, 1.0, 4.0, 32},
                        16),
      {1.0f, 0.0242403448f, 0.00470075384f, 0.000911583134f, 0.000176776681f, 3.42810235e-05f, 6.64786967e-06f,
       1.28917316e-06f},
      4);
}

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
}  // namespace tare
