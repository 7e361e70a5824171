// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/weight_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/checkpoint/matrix_parts.h"
#include "quant/format/hadamard.h"
#include "quant/format/round.h"
#include "quant/plan/site.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::weight_matrix_test {
namespace {

// As gpt-oss stores its experts: in place where products take it so, which f32 does everywhere.
TEST(WeightMatrixTest, ColumnsAreTakenAsTheyAreStored) {
  constexpr int64_t kIn = 48, kOut = 40;
  std::vector<std::byte> bytes(2 * kIn * kOut * sizeof(float) + 1);
  const auto columns = [&](DType type, const Projector& projector, size_t shift = 0) {
    const size_t size = 2 * kIn * kOut * Bits(type) / 8;
    const TensorView tensor{"t", type, {2, kIn, kOut}, std::span(bytes).subspan(shift, size)};
    const TransposedMatrix second(tensor, 1, [] {});
    const std::optional<DenseMatrix> stored = StoredColumns(WeightMatrix(&second), projector);
    if (stored) {
      EXPECT_EQ(stored->data, bytes.data() + shift + size / 2);
      EXPECT_EQ(stored->order, WeightOrder::kColumns);
    }
    return stored.has_value();
  };
  const Projector f32(Math::kF32);
  EXPECT_TRUE(columns(DType::kF32, f32));
  EXPECT_FALSE(columns(DType::kF32, f32, 1));
  EXPECT_EQ(columns(DType::kBF16, f32), f32.IsNative(WeightType::kBf16, kOut, kIn, WeightOrder::kColumns));
  EXPECT_FALSE(StoredColumns(DenseMatrix{.data = bytes.data(), .out = kOut, .in = kIn}, f32));
  if (!HasProducts(Math::kBf16)) return;
  const Projector bf16(Math::kBf16);
  EXPECT_EQ(columns(DType::kBF16, bf16), bf16.IsNative(WeightType::kBf16, kOut, kIn, WeightOrder::kColumns));
  EXPECT_FALSE(columns(DType::kF16, bf16));
}

// Rows are the same whether they are read one by one, together, or made into a matrix: of codes, and of each type.
TEST(WeightMatrixTest, RowsAreTheValues) {
  const QuantizedMatrixBuffer codes = RandomQuantized(Format::kInt4, 5, 64, 32, 1);
  AlignedBuffer<char> f32, bf16;
  const WeightMatrix of_codes(&codes.view());
  EXPECT_TRUE(of_codes.HasIntegers());
  EXPECT_FALSE(of_codes.IsReady(Math::kF32));
  const WeightMatrix made = InFloat(of_codes, Math::kF32, f32, "w"), half = InFloat(made, Math::kBf16, bf16, "w");
  EXPECT_FALSE(made.HasIntegers());
  EXPECT_TRUE(made.IsReady(Math::kF32) && half.IsReady(Math::kBf16));
  EXPECT_FALSE(made.IsReady(Math::kBf16));
  for (const WeightMatrix& matrix : {of_codes, made, half}) {
    std::vector<float> row(64), rows(3 * 64), expected(64);
    RowsAsFloat(matrix, 2, 3, rows.data(), "w");
    for (int64_t r = 2; r < 5; ++r) {
      RowAsFloat(matrix, r, row.data());
      EXPECT_TRUE(std::ranges::equal(row, std::span(rows).subspan(static_cast<size_t>(r - 2) * 64, 64)));
      DequantizeRow(codes.view(), r, expected.data());
      for (size_t i = 0; i < 64; ++i) {
        const float value =
            matrix.values.type == WeightType::kBf16 ? FloatFromBf16(Bf16FromFloat(expected[i])) : expected[i];
        EXPECT_EQ(row[i], value);
      }
    }
  }
}

}  // namespace
}  // namespace tare::weight_matrix_test

namespace tare::rounded_weight_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kOut = 5, kIn = 32;

class RoundedWeightTest : public testing::Test {
 protected:
  QuantizedMatrixBuffer Quantized(const char* text) const {
    return QuantizeByRule(weight_, Plan::Parse(text).rules()[0], "w");
  }
  // The weights as f32, dequantized from their codes.
  std::vector<float> Rounded(const char* text) const {
    const QuantizedMatrixBuffer codes = Quantized(text);
    std::vector<float> values(values_.size());
    for (int64_t row = 0; row < kOut; ++row) DequantizeRow(codes.view(), row, values.data() + row * kIn);
    return values;
  }
  // As Rounded, computed by hand: one scale for each `group` values in storage order.
  std::vector<float> ByHand(int64_t group, Format format) const {
    std::vector<float> values = values_;
    for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(group)) {
      float absmax = 0;
      for (int64_t i = 0; i < group; ++i) absmax = std::max(absmax, std::abs(values[begin + i]));
      const Scale scale = ScaleFor(absmax, format);
      for (int64_t i = 0; i < group; ++i)
        values[begin + i] = static_cast<float>(CodeOf(values[begin + i], scale.inv, format)) * scale.scale;
    }
    return values;
  }

  const std::vector<float> values_ = RandomNormal(kOut * kIn, 1);
  const DenseMatrix weight_{.data = values_.data(), .type = WeightType::kF32, .out = kOut, .in = kIn};
};

TEST_F(RoundedWeightTest, ARuleSaysWhichWeightsShareAScale) {
  EXPECT_EQ(Rounded("weights=int8/channel"), ByHand(kIn, Format::kInt8));
  EXPECT_EQ(Rounded("weights=int4/group16"), ByHand(16, Format::kInt4));
  EXPECT_EQ(Rounded("weights=int6/tensor"), ByHand(kOut * kIn, Format::kInt6));
  EXPECT_NE(Rounded("weights=int4/channel+mse"), Rounded("weights=int4/channel"));
}

// A row of 32 weights is one block of MX, or two of NVFP4, whose matrix has an f32 scale as well.
TEST_F(RoundedWeightTest, FormatsThatAreNotIntegersRoundByTheirScales) {
  for (const auto& [text, format, group] : {std::tuple{"weights=mxfp4", Format::kMxFp4, size_t{32}},
                                            {"weights=nvfp4", Format::kNvFp4, size_t{16}},
                                            {"weights=nvint4", Format::kNvInt4, size_t{16}},
                                            {"weights=nf4/group8", Format::kNf4, size_t{8}},
                                            {"weights=fp8e4m3/tensor", Format::kFp8E4M3, size_t{kOut * kIn}}}) {
    std::vector<float> expected = values_;
    float of_all = 0;
    for (const float x : values_) of_all = std::max(of_all, std::abs(x));
    for (size_t begin = 0; begin < expected.size(); begin += group) {
      float absmax = 0;
      for (size_t i = begin; i < begin + group; ++i) absmax = std::max(absmax, std::abs(values_[i]));
      const Scale scale = ScaleFor(absmax, format, of_all);
      for (size_t i = begin; i < begin + group; ++i)
        expected[i] = tare::Rounded(values_[i], scale.inv, format) * scale.scale;
    }
    EXPECT_EQ(Rounded(text), expected) << text;
  }
  std::vector<float> bad = values_;
  bad[40] = NAN;
  EXPECT_THAT(Call([&] {
                QuantizeByRule(DenseMatrix{.data = bad.data(), .type = WeightType::kF32, .out = kOut, .in = kIn},
                               Plan::Parse("weights=mxfp4").rules()[0], "w");
              }),
              ThrowsMessage<Error>(testing::StrEq("w: weights, row 1: got nan at 8, expected finite values")));
}

// What is rounded is the rotated row, and its values are rotated back.
TEST_F(RoundedWeightTest, RotatedRowsAreRoundedAndRotatedBack) {
  const Hadamard& rotation = PlanRotation(kIn, {16});
  std::vector<float> rotated = values_;
  for (int64_t row = 0; row < kOut; ++row) rotation.Rotate(rotated.data() + row * kIn, rotated.data() + row * kIn);
  for (const char* rule :
       {"weights=int4/channel", "weights=int4/group8+zero+mse", "weights=int6/tensor", "weights=nvfp4"}) {
    const QuantizedMatrixBuffer codes =
        QuantizeByRule(DenseMatrix{.data = rotated.data(), .type = WeightType::kF32, .out = kOut, .in = kIn},
                       Plan::Parse(rule).rules()[0], "w");
    std::vector<float> expected(values_.size());
    for (int64_t row = 0; row < kOut; ++row) {
      float* const values = expected.data() + row * kIn;
      DequantizeRow(codes.view(), row, values);
      rotation.RotateBack(values, values);
    }
    const std::string text = Plan::Parse(std::string(rule) + "+hadamard16").canonical();
    EXPECT_EQ(Rounded(text.c_str()), expected) << text;
    EXPECT_NE(Rounded(text.c_str()), Rounded(rule)) << text;
  }
  EXPECT_THAT(Call([&] { Quantized("weights=int4/channel+hadamard12"); }),
              ThrowsMessage<Error>(HasSubstr("got runs of 12 channels in rows of 32, expected a divisor")));
}

// One range for all of a tensor, and one for each group.
TEST_F(RoundedWeightTest, OtherRangesOfCodesAreOfTheSameValues) {
  const auto by_hand = [&](const char* name, int64_t group) {
    const Format format = *ParseMatrixFormat(name);
    std::vector<float> values = values_;
    for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(group)) {
      const std::span<float> x(values.data() + begin, static_cast<size_t>(group));
      const GroupScale scale = GroupScaleFor(EndsOf(x, format), format, 0);
      for (float& v : x)
        v = HasOffset(format) ? ValueOf(RoundedIn(v, scale, format), scale)
                              : RoundedIn(v, scale, format) * scale.scale.scale;
    }
    return values;
  };
  EXPECT_EQ(Rounded("weights=int4/group16+zero"), by_hand("int4+zero", 16));
  EXPECT_EQ(Rounded("weights=int4/channel+full"), by_hand("int4+full", kIn));
  EXPECT_EQ(Rounded("weights=int6/tensor+min"), by_hand("int6+min", kOut * kIn));
  EXPECT_EQ(Rounded("weights=int8/tensor+zero"), by_hand("int8+zero", kOut * kIn));
  EXPECT_NE(Rounded("weights=int4/group16+zero+mse"), Rounded("weights=int4/group16+zero"));
}

// BitNet b1.58: what is beyond half the mean magnitude is one of it.
TEST_F(RoundedWeightTest, TernaryWeightsUseTheMeanMagnitude) {
  double sum = 0;
  for (const float x : values_) sum += std::abs(x);
  const auto mean = static_cast<float>(sum / static_cast<double>(values_.size()));
  std::vector<float> expected;
  for (const float x : values_) expected.push_back(std::abs(x) > mean / 2 ? std::copysign(mean, x) : 0.0f);
  const std::vector<float> got = Rounded("weights=ternary/tensor");
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6f * mean) << values_[i];
}

// Zeros stay zero in every format.
TEST_F(RoundedWeightTest, WeightsOfZerosStayZero) {
  const std::vector<float> zeros(kOut * 48);
  for (const Format& format : SpelledFormats()) {
    if (!ClassOf(Site::kQProjW).Takes(format) || format == Format::kF32) continue;
    const std::string plan = "weights=" + Name(format) + (Info(format).block > 0 ? "" : "/tensor");
    const QuantizedMatrixBuffer codes =
        QuantizeByRule(DenseMatrix{.data = zeros.data(), .type = WeightType::kF32, .out = kOut, .in = 48},
                       Plan::Parse(plan).rules()[0], "w");
    std::vector<float> row(48, 1.0f);
    DequantizeRow(codes.view(), kOut - 1, row.data());
    EXPECT_EQ(row, std::vector<float>(48)) << plan;
  }
}

TEST_F(RoundedWeightTest, ValuesThatAreNotFiniteAreRefused) {
  std::vector<float> values = values_;
  values[kIn + 3] = NAN;
  DenseMatrix bad = weight_;
  bad.data = values.data();
  EXPECT_THAT(Call([&] { QuantizeByRule(bad, Plan::Parse("weights=int8/channel").rules()[0], "w"); }),
              ThrowsMessage<Error>(HasSubstr("w: ")));
}

}  // namespace
}  // namespace tare::rounded_weight_test

namespace tare::squared_error_test {
namespace {

// Whole numbers, so that every order of additions gives the same sums.
TEST(SquaredError, OfEveryLength) {
  for (const size_t n : {0, 1, 7, 8, 9, 16, 37}) {
    std::vector<float> values, rounded;
    double error = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      values.push_back(static_cast<float>(i * i));
      rounded.push_back(static_cast<float>(i * i + i));
      error += static_cast<double>(i * i);
      size += static_cast<double>(i * i * i * i);
    }
    const Squares squares = SquaresOf(values, rounded);
    EXPECT_EQ(squares.error, error) << n;
    EXPECT_EQ(squares.size, size) << n;
  }
}

}  // namespace
}  // namespace tare::squared_error_test
