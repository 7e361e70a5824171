// SPDX-License-Identifier: Apache-2.0
// Frequencies against the formulas in double and against transformers 5.12.1, and what keys say.
//
// The error of a frequency in f32: its exponent is rounded by half a unit, which theta^e multiplies by ln(theta); the
// power adds one unit; a division half a unit. So (ln(theta) + 3) u with u = 2^-24, and a division by the factor adds
// one.
// Cosines and sines against transformers 5.12.1.
#include "experiments/model/config/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "experiments/model/config/config.h"
#include "tests/support/call.h"
#include "tests/support/family_config.h"

namespace tare::rotary_scaling_test {
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

TEST(RotaryScaling, DefaultAndLinearFollowTheFormula) {
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
TEST(RotaryScaling, Llama3FollowsTheFormulaOnAllThreePieces) {
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
TEST(RotaryScaling, FrequenciesAreTransformers) {
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

// ROPE_INIT_FUNCTIONS of modeling_rope_utils; yarn's ramp adds some roundings of values near 1.
TEST(RotaryScaling, YarnAndLongRopeAreTransformers) {
  RotaryConfig yarn{.type = RotaryConfig::Type::kYarn, .factor = 8, .original_positions = 256};
  yarn.fast_rotations = 16, yarn.slow_rotations = 2;
  ExpectWithinUnits(RotaryFrequencies(yarn, 16),
                    {1.0f, 0.223994657f, 0.0416666642f, 0.00395284733f, 0.00124999997f, 0.000395284733f,
                     0.000125000006f, 3.95284733e-05f},
                    16);
  RotaryConfig longrope{.type = RotaryConfig::Type::kLongRope, .original_positions = 4096, .share = 0.75};
  longrope.short_divisors = {1.0, 1.05, 1.2, 1.5, 1.9, 2.3};
  longrope.long_divisors = {1.1, 1.6, 4.0, 12.5, 30.0, 64.0};
  const std::vector<float> few{1.0f, 0.205184266f, 0.0386799015f, 0.00666666683f, 0.00113391283f, 0.00020180826f},
      many{0.909090877f, 0.134652153f, 0.011603971f, 0.00079999998f, 7.18144802e-05f, 7.25248356e-06f};
  ExpectWithinUnits(RotaryFrequencies(longrope, 16), few, 6);
  ExpectWithinUnits(RotaryFrequencies(longrope, 16, 4096), few, 6);
  ExpectWithinUnits(RotaryFrequencies(longrope, 16, 4097), many, 6);
}

RotaryConfig Read(const nlohmann::json& json) { return ReadRotary(ConfigKeys(json, "here"), 131072); }

void ExpectRefused(const nlohmann::json& json, const std::string& why) {
  EXPECT_THAT(Call([&] { Read(json); }), testing::ThrowsMessage<Error>(testing::HasSubstr("here: " + why))) << json;
}

const nlohmann::json kLongRope = {{"rope_type", "longrope"}, {"short_factor", {1, 1.5}}, {"long_factor", {2, 9.5}}};

// One set of parameters for all layers would be wrong where each type of layer has its own.
TEST(RotaryScaling, ParametersByLayerTypeAreNotThoseOfAll) {
  ExpectRefused({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}},
                "rope_parameters: full_attention: ");
}

TEST(RotaryScaling, WhatKeysSayOfLongRope) {
  nlohmann::json json = {{"original_max_position_embeddings", 4096}, {"partial_rotary_factor", 0.75}};
  for (const char* object : {"rope_scaling", "rope_parameters"}) {
    const RotaryConfig c = Read(With(json, object, kLongRope));
    EXPECT_EQ(c.type, RotaryConfig::Type::kLongRope);
    EXPECT_EQ(c.share, 0.75);
    EXPECT_EQ(c.original_positions, 4096);
    EXPECT_THAT(c.short_divisors, testing::ElementsAre(1, 1.5));
    EXPECT_THAT(c.long_divisors, testing::ElementsAre(2, 9.5));
    EXPECT_DOUBLE_EQ(c.attention_factor, 1.1902380714238083);
    EXPECT_FALSE(c.IsLong(4096));
    EXPECT_TRUE(c.IsLong(4097));
  }
  json["rope_scaling"] = With(With(kLongRope, "attention_factor", 1.25), "original_max_position_embeddings", 100);
  EXPECT_EQ(Read(json).attention_factor, 1.25);
  EXPECT_EQ(Read(json).original_positions, 4096);  // the file's key goes before the object's
  json.erase("original_max_position_embeddings");
  EXPECT_EQ(Read(json).original_positions, 100);
  json["rope_scaling"]["type"] = "su", json["rope_scaling"].erase("rope_type");
  EXPECT_EQ(Read(json).type, RotaryConfig::Type::kLongRope);
  EXPECT_EQ(Name(Read(json).type), "longrope");
}

TEST(RotaryScaling, NonsenseIsRefusedByKey) {
  const auto scaled = [](nlohmann::json object, const char* key, const nlohmann::json& value) {
    object[key] = value;
    return nlohmann::json{{"rope_parameters", object}};
  };
  const nlohmann::json linear = {{"rope_type", "linear"}, {"factor", 2}},
                       yarn = {{"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 4096}};
  for (const double bad : {0.0, -2.0}) {
    ExpectRefused(scaled(linear, "factor", bad), "rope_parameters: factor: got " + nlohmann::json(bad).dump());
    ExpectRefused(scaled(yarn, "attention_factor", bad), "rope_parameters: attention_factor: got");
    ExpectRefused(scaled(kLongRope, "short_factor", {1, bad}), "rope_parameters: short_factor: got");
    ExpectRefused(scaled(kLongRope, "factor", bad), "rope_parameters: factor: got");
    ExpectRefused({{"partial_rotary_factor", bad}}, "partial_rotary_factor: got");
  }
  ExpectRefused({{"partial_rotary_factor", 1.5}}, "partial_rotary_factor: got 1.5, expected at most 1");
  ExpectRefused(scaled(linear, "partial_rotary_factor", 2), "rope_parameters: partial_rotary_factor: got 2");
  for (const char* key : {"mscale", "mscale_all_dim", "beta_slow"})
    ExpectRefused(scaled(yarn, key, -2), "rope_parameters: " + std::string(key) + ": got -2");
  ExpectRefused(scaled(yarn, "beta_fast", 0.5), "rope_parameters: beta_fast: got 0.5, expected more than beta_slow 1");
  ExpectRefused(scaled(kLongRope, "long_factor", nullptr), "rope_parameters: key 'long_factor' is missing");
  ExpectRefused(scaled(kLongRope, "long_factor", 2), "rope_parameters: long_factor: got 2, expected a list");
  ExpectRefused(scaled(kLongRope, "original_max_position_embeddings", 1),
                "rope_parameters: original_max_position_embeddings: got 1, expected more than 1");
  ExpectRefused(scaled(kLongRope, "long_mscale", 1.2), "rope_parameters: long_mscale: 1.2 is not supported");
}

TEST(RotaryScaling, PairsMustBeWholeAndHaveTheirDivisors) {
  const auto refused = [](const RotaryConfig& rotary, int head_dim, const std::string& why) {
    EXPECT_THAT(Call([&] { CheckRotary(rotary, head_dim, "here"); }),
                testing::ThrowsMessage<Error>(testing::HasSubstr("here: " + why)));
  };
  CheckRotary({.share = 0.75}, 8, "here");
  refused({}, 7, "head_dim: got 7, expected an even number");
  refused({.share = 0.4}, 8, "partial_rotary_factor: got 0.4, which is 3 of the 8 channels");
  refused({.share = 0.1}, 8, "partial_rotary_factor: got 0.1, which is 0 of the 8 channels");
  RotaryConfig longrope{.type = RotaryConfig::Type::kLongRope, .share = 0.75};
  longrope.short_divisors = {1, 2, 3}, longrope.long_divisors = {1, 2, 3};
  CheckRotary(longrope, 8, "here");
  longrope.long_divisors = {1, 2, 3, 4};
  refused(longrope, 8, "long_factor: got 4 numbers, expected 3, one for each pair");
}

}  // namespace
}  // namespace tare::rotary_scaling_test

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
