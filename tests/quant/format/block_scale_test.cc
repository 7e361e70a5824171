// SPDX-License-Identifier: Apache-2.0
#include "quant/format/block_scale.h"

#include <gtest/gtest.h>

#include <limits>

namespace tare::block_scale_test {
namespace {

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
  EXPECT_EQ((TwoLevels{1.25f, 7.0f}.Inverse()), 0.11428572f);  // 1 / 7 first; 1 / 8.75 is 0.114285715 in f32
}

}  // namespace
}  // namespace tare::block_scale_test
