// SPDX-License-Identifier: Apache-2.0
#include "quant/format/format.h"

#include <gtest/gtest.h>

#include <string>

namespace tare::format_test {
namespace {

TEST(Format, RowsStandInTheOrderOfTheNames) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    EXPECT_EQ(kFormats[i].format, static_cast<Format>(i));
    EXPECT_EQ(&Info(kFormats[i].format), &kFormats[i]);
    EXPECT_EQ(ParseFormat(kFormats[i].name), kFormats[i].format);
  }
  for (const char* unknown : {"", "int5", "INT8", "int8 ", "u16"}) EXPECT_FALSE(ParseFormat(unknown)) << unknown;
}

// Signed codes are symmetric, without the lowest of two's complement; unsigned ones fill their bits.
TEST(Format, CodesFollowFromTheBits) {
  for (const FormatInfo& info : kFormats) {
    if (!IsInteger(info.format)) continue;
    const bool is_signed = info.name.starts_with("int");
    EXPECT_EQ(info.name, (is_signed ? "int" : "u") + std::to_string(info.bits));
    EXPECT_EQ(info.max_code, is_signed ? (1 << (info.bits - 1)) - 1 : (1 << info.bits) - 1);
    EXPECT_EQ(info.min_code, is_signed ? -info.max_code : 0);
  }
}

TEST(Format, GridsThatAreIntegersTimesAStep) {
  const auto expect = [](const char* name, Format integers, float step) {
    const std::optional<StepCodes> codes = AsStepCodes(*ParseFormat(name));
    ASSERT_TRUE(codes) << name;
    EXPECT_EQ(codes->format, integers) << name;
    EXPECT_EQ(codes->step, step) << name;
  };
  expect("int6", Format::kInt6, 1.0f);
  expect("int3", Format::kInt4, 1.0f);  // no kernel is narrower
  expect("int2", Format::kInt4, 1.0f);
  expect("mxfp4", Format::kInt6, 0.5f);  // to 12
  expect("nvfp4", Format::kInt6, 0.5f);
  expect("mxfp6e2m3:ceil", Format::kInt8, 0.125f);  // to 60
  expect("mxint8", Format::kInt8, 1.0f / 64);
  for (const char* none : {"f32", "mxfp6e3m2", "mxfp8e4m3", "fp8e5m2", "nf4"})
    EXPECT_FALSE(AsStepCodes(*ParseFormat(none))) << none;
}

// Of the others: the grid's values and zero fit into the bits, and a name with a colon is another rule for the same.
TEST(Format, OthersHaveAGridAndNoCodes) {
  for (const FormatInfo& info : kFormats) {
    if (!HasCodes(info.format) || IsInteger(info.format)) continue;
    EXPECT_EQ(info.min_code, 0) << info.name;
    EXPECT_GT(info.Largest(), 0.0f) << info.name;
    const size_t colon = info.name.find(':');
    if (colon == info.name.npos) continue;
    const FormatInfo& base = Info(*ParseFormat(info.name.substr(0, colon)));
    EXPECT_EQ(base.block, info.block) << info.name;
    EXPECT_EQ(base.grid.largest, info.grid.largest) << info.name;
    EXPECT_EQ(base.grid.mantissa_bits, info.grid.mantissa_bits) << info.name;
    EXPECT_TRUE(base.scale != info.scale || base.grid.ties != info.grid.ties) << info.name;
  }
}

TEST(Format, WordsAfterAColon) {
  struct Case {
    const char* name;
    ScaleType scale;
    Ties ties;
  };
  for (const Case& c : {Case{"mxfp4", ScaleType::kE8M0Floor, Ties::kToEven},
                        {"mxfp4:rceil", ScaleType::kE8M0Rceil, Ties::kToEven},
                        {"mxfp4:ties-zero", ScaleType::kE8M0Floor, Ties::kTowardZero},
                        {"mxfp6e2m3:even:ties-away", ScaleType::kE8M0Even, Ties::kAwayFromZero},
                        {"nvfp4:256", ScaleType::kTwoLevel256, Ties::kToEven},
                        {"nvfp4:256:ties-away", ScaleType::kTwoLevel256, Ties::kAwayFromZero},
                        {"fp8e5m2:ceil", ScaleType::kE8M0Ceil, Ties::kToEven},
                        {"nf4:floor", ScaleType::kE8M0Floor, Ties::kToEven}}) {
    ASSERT_TRUE(ParseFormat(c.name)) << c.name;
    EXPECT_EQ(Info(*ParseFormat(c.name)).scale, c.scale) << c.name;
    EXPECT_EQ(Info(*ParseFormat(c.name)).grid.ties, c.ties) << c.name;
  }
  for (const char* none : {"mxfp4:floor", "mxfp4:ties-away:rceil", "nf4:ties-away", "int8:ceil", "ternary:ceil",
                           "fp8e4m3:256", "mxfp4:", "mxfp4:rceil:"})
    EXPECT_FALSE(ParseFormat(none)) << none;
}

}  // namespace
}  // namespace tare::format_test
