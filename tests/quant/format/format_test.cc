// SPDX-License-Identifier: Apache-2.0
#include "quant/format/format.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tare::format_test {
namespace {

TEST(Format, ABaseIsAFormatAndARowWithItsName) {
  for (const FormatRow& row : kFormats) {
    if (row.base == Format::kListed) continue;
    EXPECT_EQ(&RowOf(row.base), &row);
    EXPECT_EQ(Name(row.base), row.name);
    EXPECT_EQ(ParseFormat(row.name), row.base);
    EXPECT_EQ(Info(row.base).bits, row.info.bits);
  }
  for (const char* unknown : {"", "int5", "INT8", "int8 ", "u16"}) EXPECT_FALSE(ParseFormat(unknown)) << unknown;
}

TEST(Format, IsAValueOfItsFields) {
  static_assert(sizeof(Format) == 16);
  constexpr Format kInt4 = Format::kInt4;
  static_assert(kInt4 == Format::kInt4 && WithRange(kInt4, CodeRange::kZero) != kInt4);
  const Format rceil = *ParseFormat("mxfp4:rceil:ties-zero");
  EXPECT_EQ(rceil.base, Format::kMxFp4);
  EXPECT_NE(rceil, Format::kMxFp4);
  Format built = Format::kMxFp4;
  built.scale = ScaleType::kE8M0Rceil;
  built.ties = Ties::kTowardZero;
  EXPECT_EQ(built, rceil);
  EXPECT_EQ(Name(built), "mxfp4:rceil:ties-zero");
}

// Bases, then each with its suffixes: messages list names in this order.
TEST(Format, EverySpelling) {
  using Words = std::vector<std::string>;
  std::vector<std::string> expected;
  for (const FormatRow& row : kFormats) {
    if (row.base != Format::kListed) expected.emplace_back(row.name);
  }
  const Words ties = {"", ":ties-away", ":ties-zero"}, powers = {"", ":ceil", ":rceil", ":even"},
              powers_instead = {"", ":floor", ":ceil", ":rceil", ":even"};
  const auto add = [&expected](const char* base, const Words& scales, const Words& all_ties) {
    for (const std::string& scale : scales) {
      for (const std::string& one : all_ties) {
        if (!scale.empty() || !one.empty()) expected.push_back(base + scale + one);
      }
    }
  };
  for (const char* base : {"mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8e4m3", "mxfp8e5m2", "mxint8"})
    add(base, powers, ties);
  add("nvfp4", {"", ":256", ":4over6", ":t1"}, ties);
  add("nvint4", {""}, ties);
  for (const char* base : {"fp8e4m3", "fp8e5m2"}) add(base, powers_instead, ties);
  add("nf4", powers_instead, {""});
  std::vector<std::string> names;
  for (const Format& format : SpelledFormats()) names.push_back(Name(format));
  EXPECT_EQ(names, expected);
}

// Signed codes are symmetric, without the lowest of two's complement; unsigned ones fill their bits.
TEST(Format, CodesFollowFromTheBits) {
  for (const auto& [base, name, info, scale] : kFormats) {
    if (!IsInteger(base)) continue;
    const bool is_signed = name.starts_with("int");
    EXPECT_EQ(name, (is_signed ? "int" : "u") + std::to_string(info.bits));
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
  expect("nvint4", Format::kInt4, 1.0f);
  expect("if4", Format::kInt6, 0.5f);               // of its E2M1
  expect("mxfp6e2m3:ceil", Format::kInt8, 0.125f);  // to 60
  expect("mxint8", Format::kInt8, 1.0f / 64);
  for (const char* none : {"f32", "mxfp6e3m2", "mxfp8e4m3", "fp8e5m2", "nf4"})
    EXPECT_FALSE(AsStepCodes(*ParseFormat(none))) << none;
}

// Other formats with codes have a grid and codes from 0; a name with a colon is another rule for the same grid.
TEST(Format, OthersHaveAGridAndNoCodes) {
  for (const Format& format : SpelledFormats()) {
    if (!HasCodes(format) || IsInteger(format)) continue;
    const FormatInfo &info = Info(format), &base = Info(format.base);
    EXPECT_EQ(info.min_code, 0) << Name(format);
    EXPECT_GT(info.Largest(), 0.0f) << Name(format);
    EXPECT_EQ(base.block, info.block) << Name(format);
    EXPECT_EQ(base.grid.largest, info.grid.largest) << Name(format);
    EXPECT_EQ(base.grid.mantissa_bits, info.grid.mantissa_bits) << Name(format);
    EXPECT_EQ(format != format.base, RowOf(format.base).scale != format.scale || base.grid.ties != info.grid.ties)
        << Name(format);
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
    EXPECT_EQ(ParseFormat(c.name)->scale, c.scale) << c.name;
    EXPECT_EQ(Info(*ParseFormat(c.name)).grid.ties, c.ties) << c.name;
  }
  for (const char* none : {"mxfp4:floor", "mxfp4:ties-away:rceil", "nf4:ties-away", "int8:ceil", "ternary:ceil",
                           "fp8e4m3:256", "mxfp4:", "mxfp4:rceil:"})
    EXPECT_FALSE(ParseFormat(none)) << none;
}

using Kind = Granularity::Kind;

TEST(Granularity, NamesAreAsDocumented) {
  EXPECT_EQ(Name({Kind::kTensor}), "tensor");
  EXPECT_EQ(Name({Kind::kHead}), "head");
  EXPECT_EQ(Name({Kind::kRow}), "row");
  EXPECT_EQ(Name({Kind::kToken}), "token");
  EXPECT_EQ(Name({Kind::kHeads}), "heads");
  EXPECT_EQ(Name({Kind::kChannel}), "channel");
  EXPECT_EQ(Name({Kind::kGroup, 64}), "group64");
  EXPECT_EQ(Name({Kind::kBlock, 1}), "block1");
  EXPECT_EQ(Name({Kind::kBlockChannel, 65536}), "block65536.channel");
  EXPECT_EQ(Name({Kind::kTokens, 128}), "tokens128");
  EXPECT_EQ(Name({Kind::kTokensBy8, 32}), "tokens32.by8");
  EXPECT_EQ(Name({Kind::kTokensBy4x2, 64}), "tokens64.by4x2");
  EXPECT_EQ(Spelling(Kind::kBlockChannel), "block<N>.channel");
}

TEST(Granularity, ParsesWhatItNames) {
  for (const Kind kind : {Kind::kTensor, Kind::kHead, Kind::kRow, Kind::kToken, Kind::kHeads, Kind::kChannel}) {
    EXPECT_EQ(ParseGranularity(Name({kind})), Granularity{kind});
  }
  for (const Kind kind :
       {Kind::kTokens, Kind::kTokensBy8, Kind::kTokensBy4x2, Kind::kGroup, Kind::kBlock, Kind::kBlockChannel}) {
    for (const int n : {1, 9, 32, 64, 65535, 65536})
      EXPECT_EQ(ParseGranularity(Name({kind, n})), (Granularity{kind, n}));
  }
}

TEST(Granularity, RefusesEverythingElse) {
  for (const char* text : {"",
                           "tensor1",
                           "Tensor",
                           "tensors",
                           " tensor",
                           "group",
                           "group0",
                           "group064",
                           "group-1",
                           "group+1",
                           "group65537",
                           "group99999999999999999999",
                           "group64 ",
                           "group64.channel",
                           "block",
                           "block.channel",
                           "block64.",
                           "block64.chan",
                           "block0.channel",
                           "block64.channel.channel",
                           ".channel",
                           "channel64",
                           "row1",
                           "block6.4",
                           "group1e2",
                           "blockchannel",
                           "tokens",
                           "tokens32.by4",
                           "tokens32.channel"}) {
    EXPECT_EQ(ParseGranularity(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tare::format_test
