// SPDX-License-Identifier: Apache-2.0
// Integers with another range of codes. The reference computes each f32 operation in double and rounds it once, which
// is f32's own result: a product or difference of two f32 is exact or rounded far below a half unit of f32's, and a
// quotient in double has more than twice f32's digits. It is numpy's formula on float32 arrays, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/ranged_integers.h"

namespace tare::code_range_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr CodeRange kRanges[] = {CodeRange::kFull, CodeRange::kZero, CodeRange::kMin};

struct PlainGroup {
  float scale = 0, zero = 0, minimum = 0;
  std::vector<float> codes, values;
};

float F32(double x) { return static_cast<float>(x); }

// The formulas of round.h.
PlainGroup Plain(const std::vector<float>& x, int bits, CodeRange range) {
  const double qmax = range == CodeRange::kFull ? std::exp2(bits - 1) - 0.5 : std::exp2(bits) - 1;
  const double smallest = *std::ranges::min_element(x), largest = *std::ranges::max_element(x);
  double low = smallest, high = largest;
  if (range == CodeRange::kZero) low = std::min(low, 0.0), high = std::max(high, 0.0);
  if (range == CodeRange::kFull) low = 0, high = std::max(std::fabs(smallest), std::fabs(largest));
  PlainGroup group{.minimum = range == CodeRange::kMin ? F32(low) : 0.0f};
  const double width = F32(high - low);
  const bool flat = width < 0x1p-100;
  const double inv = flat ? 0.0 : F32(qmax / width);
  group.scale = flat ? 0.0f : F32(width / qmax);
  if (range == CodeRange::kZero) group.zero = F32(std::clamp(std::nearbyint(F32(-low * inv)), 0.0f, F32(qmax)));
  const double first = range == CodeRange::kFull ? -std::exp2(bits - 1) : 0, last = first + std::exp2(bits) - 1;
  for (const float value : x) {
    const double scaled = F32(double{F32(double{value} - double{group.minimum})} * inv);
    group.codes.push_back(F32(std::clamp(std::nearbyint(scaled) + double{group.zero}, first, last)));
    const double steps = double{group.codes.back()} - double{group.zero};
    group.values.push_back(F32(double{F32(steps * double{group.scale})} + double{group.minimum}));
  }
  return group;
}

// Groups of one sign, of both, constant, all zero, of one value, tiny, with ties.
std::vector<std::vector<float>> Hostile() {
  std::vector<std::vector<float>> groups = {{0.0f},
                                            {1.5f},
                                            {-2.25f},
                                            std::vector<float>(32, 0.0f),
                                            std::vector<float>(32, 0.3f),
                                            std::vector<float>(7, -0.7f),
                                            {0.0f, -0.0f, 0x1p-140f},
                                            {-0x1p-101f, 0x1p-101f},
                                            {-1e-30f, 3e-30f, 2e-30f},
                                            {0.0f, 15.0f, 0.5f, 1.5f, 2.5f, 7.5f},
                                            {-7.5f, 7.5f, 0.5f, -0.5f, 1.5f, -6.5f},
                                            {1000.0f, 1000.25f, 1000.5f},
                                            {-1e37f, 1e37f, 3.0f}};
  std::mt19937 random(1);
  for (const float mean : {0.0f, 3.0f, -3.0f, 0.4f}) {
    for (const int n : {2, 3, 16, 33, 64, 127}) {
      std::normal_distribution<float> normal(mean);
      std::vector<float> group;
      for (int i = 0; i < n; ++i) group.push_back(normal(random));
      groups.push_back(group);
    }
  }
  return groups;
}

TEST(CodeRange, FormatsAreTheTablesWithTheirSuffix) {
  EXPECT_EQ(ParseMatrixFormat("int4+zero"), WithRange(Format::kInt4, CodeRange::kZero));
  EXPECT_EQ(ParseMatrixFormat("mxfp4"), Format::kMxFp4);
  for (const char* none : {"int4+", "int4+zero+min", "u4+zero", "mxfp4+zero", "+zero"})
    EXPECT_FALSE(ParseMatrixFormat(none)) << none;
  EXPECT_FALSE(ParseFormat("int4+zero"));
  for (const Format base : kSignedIntegers) {
    for (const CodeRange range : kRanges) {
      const Format format = WithRange(base, range);
      const FormatInfo info = Info(format);
      EXPECT_TRUE(TakesRange(base, range) && !TakesRange(base, CodeRange::kMean));
      EXPECT_EQ(WithRange(format, CodeRange::kOwn), base);
      EXPECT_EQ(ParseMatrixFormat(Name(format)), format);
      EXPECT_EQ(info.max_code - info.min_code, (1 << Info(base).bits) - 1) << Name(format);
      EXPECT_TRUE(IsInteger(format));
      EXPECT_EQ(HasOffset(format), range != CodeRange::kFull);
    }
    EXPECT_FALSE(HasOffset(base));
  }
}

TEST(CodeRange, CodesAndValuesAreThePlainFormulasBitForBit) {
  for (const Format base : kSignedIntegers) {
    for (const CodeRange range : kRanges) {
      const Format format = WithRange(base, range);
      for (const std::vector<float>& x : Hostile()) {
        const auto n = static_cast<int64_t>(x.size());
        const PlainGroup plain = Plain(x, Info(base).bits, range);
        const GroupScale group = GroupScaleFor(EndsOf(x, format), format, 0);
        EXPECT_EQ(group.scale.scale, plain.scale);
        EXPECT_EQ(group.zero, plain.zero);
        EXPECT_EQ(group.origin, plain.minimum);
        QuantizedMatrixBuffer matrix(format, 1, n, n);
        RoundRowToNearest(x.data(), ClipChoice::kAbsmax, matrix, 0);
        std::vector<float> codes(x.size()), values(x.size());
        Unpack<float>(format, {matrix.Codes(0), matrix.view().RowBytes()}, codes);
        DequantizeRow(matrix.view(), 0, values.data());
        EXPECT_EQ(codes, plain.codes) << Name(format);
        EXPECT_EQ(values, plain.values) << Name(format);
        for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(RoundedIn(x[i], group, format), codes[i]) << Name(format);
      }
    }
  }
}

// Half a step, and f32's rounding of a few operations on numbers up to the group's largest; with +zero half a step more
// at the ends, where the rounded zero point pushes them out of the codes, and with +full where 7.5 steps become 7.
TEST(CodeRange, ValuesComeBackWithinTheirSteps) {
  for (const Format base : kSignedIntegers) {
    for (const CodeRange range : kRanges) {
      const Format format = WithRange(base, range);
      for (const std::vector<float>& x : Hostile()) {
        const GroupScale group = GroupScaleFor(EndsOf(x, format), format, 0);
        if (group.scale.scale == 0) continue;
        const float within = range == CodeRange::kMin ? 0.5f : 1.0f;
        for (const float value : x)
          EXPECT_NEAR(
              ValueOf(RoundedIn(value, group, format), group), value,
              within * group.scale.scale + 4 * 0x1p-24f * (AbsMax(x) + Info(format).Largest() * group.scale.scale))
              << Name(format);
        const float kept = group.origin;  // 0 with +zero
        EXPECT_EQ(ValueOf(RoundedIn(kept, group, format), group), kept) << Name(format);
      }
    }
  }
}

// What +min is for: a group of equal values costs nothing. +zero has 0 in its range.
TEST(CodeRange, EqualValues) {
  const Format min = WithRange(Format::kInt4, CodeRange::kMin), zero = WithRange(Format::kInt4, CodeRange::kZero);
  for (const float value : {0.3f, -0.7f, 1e30f, 0.0f}) {
    const std::vector<float> x(5, value);
    EXPECT_EQ(Plain(x, 4, CodeRange::kMin).values, x);
    const GroupScale group = GroupScaleFor(EndsOf(x, min), min, 0);
    EXPECT_EQ(ValueOf(RoundedIn(value, group, min), group), value);
    const GroupScale with_zero = GroupScaleFor(EndsOf(x, zero), zero, 0);
    EXPECT_EQ(with_zero.zero, value < 0 ? 15.0f : 0.0f);
    EXPECT_NEAR(ValueOf(RoundedIn(value, with_zero, zero), with_zero), value, std::fabs(value) * 0x1p-23f);
  }
}

// By hand: 0 .. 15 in steps of 1 with the zero point 5; -7.5 .. 7.5 of int4+full has the code -8 and no 8.
TEST(CodeRange, ByHand) {
  const std::vector<float> x = {-5.0f, 10.0f, 0.0f, 2.4f, -4.6f};
  const PlainGroup zero = Plain(x, 4, CodeRange::kZero), min = Plain(x, 4, CodeRange::kMin);
  EXPECT_EQ(zero.zero, 5.0f);
  EXPECT_EQ(zero.codes, (std::vector<float>{0, 15, 5, 7, 0}));
  EXPECT_EQ(zero.values, (std::vector<float>{-5, 10, 0, 2, -5}));
  EXPECT_EQ(min.codes, (std::vector<float>{0, 15, 5, 7, 0}));
  EXPECT_EQ(min.values, zero.values);
  EXPECT_EQ(Plain({-7.5f, 7.5f, -6.4f}, 4, CodeRange::kFull).codes, (std::vector<float>{-8, 7, -6}));
}

TEST(CodeRange, RangesBeyondF32AreRefused) {
  const float huge = std::numeric_limits<float>::max();
  for (const char* name : {"int4+zero", "int8+min"}) {
    QuantizedMatrixBuffer matrix(*ParseMatrixFormat(name), 1, 2, 2);
    const float row[] = {-huge, huge};
    for (const ClipChoice choice : {ClipChoice::kAbsmax, ClipChoice::kLeastSquares})
      EXPECT_THAT(Call([&] { RoundRowToNearest(row, choice, matrix, 0); }),
                  ThrowsMessage<Error>(HasSubstr("weights, row 0, group 0: got values from -3.4028235e+38 to ")));
    const float bad[] = {0.0f, std::nanf("")};
    EXPECT_THAT(Call([&] { RoundRowToNearest(bad, ClipChoice::kAbsmax, matrix, 0); }),
                ThrowsMessage<Error>(HasSubstr("got nan at 1")));
  }
  EXPECT_THROW(QuantizedMatrixBuffer(WithRange(Format::kInt4, CodeRange::kZero), 1, 40, 16), Error);
}

TEST(CodeRange, WhatNoQuantizerWritesIsRefused) {
  std::vector<float> y(4);
  const auto refused = [&](const char* name, const auto& spoil, const char* part) {
    QuantizedMatrixBuffer matrix(*ParseMatrixFormat(name), 1, 4, 2);
    const float row[] = {1, 2, -1, 4};
    RoundRowToNearest(row, ClipChoice::kAbsmax, matrix, 0);
    EXPECT_NO_THROW(DequantizeRow(matrix.view(), 0, y.data()));
    spoil(matrix);
    EXPECT_THAT(Call([&] { DequantizeRow(matrix.view(), 0, y.data(), "file: 'w'"); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("file: 'w': row 0, group 1: got "), HasSubstr(part))));
  };
  using Matrix = QuantizedMatrixBuffer;
  constexpr float kHuge = std::numeric_limits<float>::max();
  refused("int4+zero", [](Matrix& m) { m.Zeros(0)[1] = 16; }, "zero point 16, expected a code of int4+zero, 0 to 15");
  refused("int6+zero", [](Matrix& m) { m.Zeros(0)[1] = 64; }, "zero point 64, expected a code of int6+zero, 0 to 63");
  refused("int8+zero", [](Matrix& m) { m.Scales(0)[1] = kHuge / 16; }, "scale");
  refused("int4+min", [](Matrix& m) { m.Minima(0)[1] = std::nanf(""); }, "minimum nan");
  refused("int4+min", [](Matrix& m) { m.Minima(0)[1] = -std::numeric_limits<float>::infinity(); }, "minimum -inf");
  refused("int4+min", [](Matrix& m) { m.Minima(0)[1] = kHuge, m.Scales(0)[1] = kHuge / 16; }, "values of all codes");
  refused("int4+full", [](Matrix& m) { m.Scales(0)[1] = kHuge / 7.5f; }, "by code 8");
}

// Fewer ends clipped than any other of the same kind: the search of the header, in its own words.
TEST(CodeRange, TheLeastSquaresIsTheBestOfItsCandidates) {
  std::mt19937 random(3);
  for (const CodeRange range : {CodeRange::kZero, CodeRange::kMin}) {
    const Format format = WithRange(Format::kInt4, range);
    for (int trial = 0; trial < 20; ++trial) {
      std::student_t_distribution<float> heavy(2.0f);
      std::vector<float> x(64);
      for (float& v : x) v = heavy(random) + 1.0f;
      const Ends widest = EndsOf(x, format);
      double least = std::numeric_limits<double>::infinity(), chosen = 0;
      const auto error_of = [&](Ends ends) {
        const GroupScale group = GroupScaleFor(ends, format, 0);
        double sum = 0;
        for (const float v : x) {
          const double steps = double{RoundedIn(v, group, format)} - double{group.zero};
          sum += std::pow(double{v} - (steps * double{group.scale.scale} + double{group.origin}), 2);
        }
        return sum;
      };
      for (int i = 0; i < 32; ++i) {
        const float factor = 1.0f - static_cast<float>(i) / 64.0f;
        const float cut = (widest.high - widest.low) * (1.0f - factor) / 2;
        least = std::min(least, error_of(range == CodeRange::kZero ? Ends{widest.low * factor, widest.high * factor}
                                                                   : Ends{widest.low + cut, widest.high - cut}));
      }
      chosen = error_of(ChooseEnds(x.data(), 64, format, ClipChoice::kLeastSquares));
      EXPECT_EQ(chosen, least);
      EXPECT_LE(chosen, error_of(widest));
    }
  }
}

}  // namespace
}  // namespace tare::code_range_test
