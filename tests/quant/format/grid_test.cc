// SPDX-License-Identifier: Apache-2.0
// Every grid against its codes: sign, exponent and mantissa decoded in double, and the nearest of all found by search.
#include "quant/format/grid.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tare::grid_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Encoding {
  const char* name;
  Grid grid;
  int exponent_bits, mantissa_bits, bias, codes;  // codes: of one sign, that are values
};

// 1/64 is int8's magnitudes, 0 to 127: no exponent, so a mantissa of seven bits under it.
constexpr Encoding kEncodings[] = {
    {"E2M1", kE2M1, 2, 1, 1, 8},   {"E2M3", kE2M3, 2, 3, 1, 32},   {"E3M2", kE3M2, 3, 2, 3, 32},
    {"E4M3", kE4M3, 4, 3, 7, 127}, {"E5M2", kE5M2, 5, 2, 15, 124}, {"1/64", kSixtyFourths, 0, 7, 0, 128},
};

double ValueOf(const Encoding& e, int code) {
  const int exponent = code >> e.mantissa_bits, mantissa = code & ((1 << e.mantissa_bits) - 1);
  if (e.exponent_bits == 0) return code / 64.0;
  if (exponent == 0) return std::ldexp(mantissa, 1 - e.bias - e.mantissa_bits);
  return std::ldexp(mantissa + (1 << e.mantissa_bits), exponent - e.bias - e.mantissa_bits);
}

// The nearest value; where two are equally near, the one of the even code.
double Reference(const Encoding& e, double x) {
  int best = 0;
  for (int code = 1; code < e.codes; ++code) {
    const double nearer = std::fabs(ValueOf(e, best) - std::fabs(x)), here = std::fabs(ValueOf(e, code) - std::fabs(x));
    if (here < nearer || (here == nearer && code % 2 == 0)) best = code;
  }
  return std::copysign(ValueOf(e, best), x);
}

TEST(Grid, EveryValueEveryHalfAndBesideIsTheNearestCode) {
  for (const Encoding& e : kEncodings) {
    EXPECT_EQ(ValueOf(e, e.codes - 1), double{e.grid.largest}) << e.name;
    for (int code = 0; code < e.codes; ++code) {
      const auto value = static_cast<float>(ValueOf(e, code));
      const auto half = static_cast<float>((ValueOf(e, code) + ValueOf(e, std::min(code + 1, e.codes - 1))) / 2);
      for (const float x : {value, half, std::nextafter(half, 0.0f), std::nextafter(half, kInfinity),
                            std::nextafter(value, 0.0f), std::nextafter(value, kInfinity)}) {
        for (const float sign : {1.0f, -1.0f}) {
          const float got = Nearest(sign * x, e.grid);
          ASSERT_EQ(double{got}, Reference(e, double{sign * x})) << e.name << ' ' << sign * x;
          ASSERT_EQ(std::signbit(got), sign < 0) << e.name << ' ' << sign * x;  // of zeros too
        }
      }
      ASSERT_EQ(Nearest(value, e.grid), value) << e.name << ' ' << code;
    }
  }
}

TEST(Grid, WhatLiesBeyondBecomesTheLargestAndNaNStays) {
  for (const Encoding& e : kEncodings) {
    for (const float x : {std::nextafter(e.grid.largest, kInfinity), 2 * e.grid.largest, 1e38f, kInfinity}) {
      EXPECT_EQ(Nearest(x, e.grid), e.grid.largest) << e.name << ' ' << x;
      EXPECT_EQ(Nearest(-x, e.grid), -e.grid.largest) << e.name << ' ' << x;
    }
    EXPECT_TRUE(std::isnan(Nearest(NAN, e.grid))) << e.name;
    EXPECT_EQ(Nearest(std::numeric_limits<float>::denorm_min(), e.grid), 0.0f) << e.name;
  }
  EXPECT_EQ(Nearest(kInfinity, kNormalQuantiles), 1.0f);
  EXPECT_EQ(Nearest(-kInfinity, kNormalQuantiles), -1.0f);
  EXPECT_TRUE(std::isnan(Nearest(NAN, kNormalQuantiles)));
}

// The halves between 0, 0.5, 1, 1.5, 2, 3, 4 and 6 by hand.
TEST(Grid, TiesOfE2M1GoToTheEvenCode) {
  const std::vector<std::pair<float, float>> ties = {{0.25f, 0.0f}, {0.75f, 1.0f}, {1.25f, 1.0f}, {1.75f, 2.0f},
                                                     {2.5f, 2.0f},  {3.5f, 4.0f},  {5.0f, 4.0f}};
  for (const auto& [x, value] : ties) EXPECT_EQ(Nearest(x, kE2M1), value) << x;
}

// Every half between two codes, and beside it, where only ties differ.
TEST(Grid, OtherTies) {
  for (const Encoding& e : kEncodings) {
    Grid away = e.grid, toward = e.grid;
    away.ties = Ties::kAwayFromZero, toward.ties = Ties::kTowardZero;
    for (int code = 0; code + 1 < e.codes; ++code) {
      const auto low = static_cast<float>(ValueOf(e, code)), high = static_cast<float>(ValueOf(e, code + 1));
      const float half = low + (high - low) / 2;
      for (const float sign : {1.0f, -1.0f}) {
        ASSERT_EQ(Nearest(sign * half, away), sign * high) << e.name << ' ' << half;
        ASSERT_EQ(Nearest(sign * half, toward), sign * low) << e.name << ' ' << half;
        for (const Grid& grid : {away, toward}) {
          ASSERT_EQ(Nearest(sign * std::nextafter(half, 0.0f), grid), sign * low) << e.name << ' ' << half;
          ASSERT_EQ(Nearest(sign * std::nextafter(half, kInfinity), grid), sign * high) << e.name << ' ' << half;
          ASSERT_EQ(Nearest(sign * high, grid), sign * high) << e.name << ' ' << high;
        }
      }
    }
    EXPECT_EQ(Nearest(kInfinity, away), e.grid.largest);
    EXPECT_TRUE(std::isnan(Nearest(NAN, toward)));
  }
}

TEST(Grid, TernaryIsMinusOneZeroAndOne) {
  const std::vector<std::pair<float, float>> values = {
      {0.5f, 0.0f}, {0.51f, 1.0f}, {-0.5f, 0.0f}, {-0.6f, -1.0f}, {7.0f, 1.0f}};
  for (const auto& [x, value] : values) EXPECT_EQ(Nearest(x, kSigns), value) << x;
}

TEST(Grid, ALevelIsTheNearestAndOfTwoTheLower) {
  for (size_t i = 0; i < kNf4Levels.size(); ++i) {
    EXPECT_EQ(Nearest(kNf4Levels[i], kNormalQuantiles), kNf4Levels[i]);
    if (i + 1 == kNf4Levels.size()) continue;
    const double half = (double{kNf4Levels[i]} + double{kNf4Levels[i + 1]}) / 2;
    const auto below = static_cast<float>(half - 1e-6), above = static_cast<float>(half + 1e-6);
    EXPECT_EQ(Nearest(below, kNormalQuantiles), kNf4Levels[i]) << i;
    EXPECT_EQ(Nearest(above, kNormalQuantiles), kNf4Levels[i + 1]) << i;
  }
  const float levels[] = {-1.0f, 0.0f, 1.0f};
  EXPECT_EQ(Nearest(0.5f, Grid{0, 0.0f, 1.0f, levels}), 0.0f);
  EXPECT_EQ(Nearest(-0.5f, Grid{0, 0.0f, 1.0f, levels}), -1.0f);
}

// Each level is the mean of the normal values that are rounded to it, as the least mean squared error requires (Lloyd
// and Max), which Max (1960) has as 0.3634, 0.1175, 0.03454 and 0.009497.
TEST(Grid, NormalLevelsLoseLeastOfANormalVariable) {
  const auto density = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); };
  const auto below = [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; };
  for (const auto& [grid, error] :
       {std::pair{kLloydMax1, 0.3634}, {kLloydMax2, 0.1175}, {kLloydMax3, 0.03454}, {kLloydMax4, 0.009497}}) {
    const std::span<const float> levels = grid.levels;
    double kept = 0;
    for (size_t i = 0; i < levels.size(); ++i) {
      const double low = i == 0 ? -INFINITY : (double{levels[i - 1]} + levels[i]) / 2;
      const double high = i + 1 == levels.size() ? INFINITY : (double{levels[i]} + levels[i + 1]) / 2;
      const double share = below(high) - below(low);
      EXPECT_NEAR(levels[i], (density(low) - density(high)) / share, 2e-6) << levels.size() << ' ' << i;
      kept += share * levels[i] * levels[i];
    }
    EXPECT_NEAR(1 - kept, error, 6e-5 * std::sqrt(error)) << levels.size();
  }
}

// tests/data/formats/make_float8.py.
TEST(Grid, AgreesWithPyTorchsCasts) {
  std::ifstream file(TARE_SOURCE_DIR "/tests/data/formats/float8.txt");
  std::string name, input, result;
  int lines = 0;
  while (file >> name >> input >> result) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(std::stoul(input, nullptr, 16)));
    const auto expected = std::bit_cast<float>(static_cast<uint32_t>(std::stoul(result, nullptr, 16)));
    ASSERT_EQ(Nearest(x, name == "e4m3" ? kE4M3 : kE5M2), expected) << name << ' ' << x;
    ++lines;
  }
  EXPECT_EQ(lines, 127 + 3 * 126 + 124 + 3 * 123);
}

struct Exponents {
  float absmax;
  int floor, ceil, rceil, even;
};

void Expect(const Grid& grid, const Exponents& e) {
  EXPECT_EQ(E8M0Exponent(e.absmax, grid, ScaleType::kE8M0Floor), e.floor) << e.absmax;
  EXPECT_EQ(E8M0Exponent(e.absmax, grid, ScaleType::kE8M0Ceil), e.ceil) << e.absmax;
  EXPECT_EQ(E8M0Exponent(e.absmax, grid, ScaleType::kE8M0Rceil), e.rceil) << e.absmax;
  EXPECT_EQ(E8M0Exponent(e.absmax, grid, ScaleType::kE8M0Even), e.even) << e.absmax;
}

// By hand from the header's four lines: E2M1 has L 6 and p 2, rounds to two bits (1.75 becomes 2).
TEST(BlockScale, RulesOfE8M0) {
  for (const Exponents& e : {Exponents{4.0f, 0, 0, 0, 0},
                             {4.5f, 0, 1, 0, 0},
                             {6.0f, 0, 1, 0, 0},
                             {6.5f, 0, 1, 1, 0},
                             {7.0f, 0, 1, 1, 1},
                             {7.9f, 0, 1, 1, 1},
                             {8.0f, 1, 1, 1, 1},
                             {1.0f, -2, -2, -2, -2},
                             {0.75f, -3, -2, -3, -3}})
    Expect(kE2M1, e);
  for (const Exponents& e :
       {Exponents{448.0f, 0, 1, 0, 0}, {449.0f, 0, 1, 1, 0}, {480.0f, 0, 1, 1, 0}, {496.0f, 0, 1, 1, 1}})
    Expect(kE4M3, e);
  for (const Exponents& e : {Exponents{1.0f, 0, 0, 0, 0}, {127.0f / 64, 0, 1, 0, 0}, {1.9921875f, 0, 1, 1, 1}})
    Expect(kSixtyFourths, e);
}

TEST(BlockScale, PowersOfTwo) {
  for (int exponent = -127; exponent <= 127; ++exponent) EXPECT_EQ(PowerOfTwo(exponent), std::ldexp(1.0f, exponent));
}

TEST(BlockScale, ExponentsEndWhereE8M0Does) {
  Expect(kSixtyFourths, {0x1.fffp-127f, -127, -126, -126, -126});  // a subnormal f32
  Expect(kE2M1, {std::numeric_limits<float>::max(), 125, 126, 126, 126});
  Expect(kE2M1, {0x1p-125f, -127, -127, -127, -127});
  Expect(kE5M2, {0x1p-126f, -127, -127, -127, -127});
  Expect(kE2M1, {std::numeric_limits<float>::denorm_min(), -127, -127, -127, -127});
}

// A rule that clips nothing: the largest magnitude is within the grid's largest value.
TEST(BlockScale, CeilAndRceilClipNothing) {
  for (const Grid& grid : {kE2M1, kE2M3, kE3M2, kE4M3, kE5M2, kSixtyFourths}) {
    for (float absmax = 0x1p-100f; absmax < 0x1p100f; absmax *= 1.37f) {
      const int rceil = E8M0Exponent(absmax, grid, ScaleType::kE8M0Rceil);
      EXPECT_LE(absmax, std::ldexp(grid.largest, rceil));
      EXPECT_GT(absmax, std::ldexp(grid.largest, rceil - 1)) << "not the least";
      EXPECT_LE(absmax, std::ldexp(grid.largest, E8M0Exponent(absmax, grid, ScaleType::kE8M0Ceil)));
    }
  }
}

// A tensor of 2688 = 448 * 6 has t = 1. 7 / 6 lies between 1.125 and 1.25 of E4M3; 1 / 6 between 0.15625 and 0.171875.
TEST(BlockScale, TwoLevels) {
  const auto scale = [](float absmax, float tensor, ScaleType type = ScaleType::kTwoLevel) {
    return TwoLevelsOf(absmax, tensor, kE2M1, type).Scale();
  };
  EXPECT_EQ(scale(2688.0f, 2688.0f), 448.0f);
  EXPECT_EQ(scale(7.0f, 2688.0f), 1.125f);
  EXPECT_EQ(scale(1.0f, 2688.0f), 0.171875f);
  EXPECT_EQ(scale(14.0f, 5376.0f), 2.25f);     // t = 2
  EXPECT_EQ(scale(1e-6f, 2688.0f), 0x1p-9f);   // E4M3's smallest
  EXPECT_EQ(scale(5000.0f, 2688.0f), 448.0f);  // and its largest
  // 1536 = 256 * 6 has t = 1 with 256; 384 = 256 * 6 / 4 is of E4M3 too.
  EXPECT_EQ(scale(1536.0f, 1536.0f, ScaleType::kTwoLevel256), 256.0f);
  EXPECT_EQ(scale(7.0f, 1536.0f, ScaleType::kTwoLevel256), 1.125f);
  // t = 1 whatever the tensor; from 6 * 448 on scales are the largest, up to 6 * 2^-10, a tie, they are 0.
  EXPECT_EQ(scale(7.0f, 1e9f, ScaleType::kTwoLevelOne), 1.125f);
  EXPECT_EQ(scale(5000.0f, 5000.0f, ScaleType::kTwoLevelOne), 448.0f);
  EXPECT_EQ(scale(0x1.81p-8f, 1.0f, ScaleType::kTwoLevelOne), 0x1p-9f);
  EXPECT_EQ(scale(0x1.8p-8f, 1.0f, ScaleType::kTwoLevelOne), 0.0f);
  EXPECT_EQ((TwoLevels{0.0f, 1.0f}.Inverse()), 0.0f);
  EXPECT_EQ((TwoLevels{1.25f, 7.0f}.Inverse()), 0.11428572f);  // 1 / 7 first; 1 / 8.75 is 0.114285715 in f32
}

}  // namespace

}  // namespace tare::grid_test
