// SPDX-License-Identifier: Apache-2.0
#include "quant/format/quantized_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
#include "tests/support/call.h"

namespace tare::quantized_matrix_test {
namespace {

TEST(QuantizedMatrix, ValuesAreCodesTimesTheirGroupsScale) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    QuantizedMatrixBuffer matrix(format, 2, 6, 3);
    for (int64_t row = 0; row < 2; ++row) {
      const std::vector<int8_t> codes = {1, -2, 3, -4, 5, static_cast<int8_t>(-6 - row)};
      Pack<int8_t>(format, codes, {matrix.Codes(row), matrix.view().RowBytes()});
      matrix.Scales(row)[0] = 0.5f;
      matrix.Scales(row)[1] = 2.0f;
    }
    float y[6];
    DequantizeRow(matrix.view(), 1, y);
    EXPECT_THAT(y, testing::ElementsAre(0.5f, -1.0f, 1.5f, -8.0f, 10.0f, -14.0f));
  }
}

// The largest scale is the one whose largest code is still finite.
TEST(QuantizedMatrix, RowsThatStandForNoFiniteValuesAreRefusedByName) {
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    QuantizedMatrixBuffer matrix(format, 2, 4, 2);
    Pack<int8_t>(format, std::vector<int8_t>{1, -2, 3, -4}, {matrix.Codes(1), matrix.view().RowBytes()});
    matrix.Scales(1)[0] = 1.0f;
    const float largest = std::numeric_limits<float>::max(), code = static_cast<float>(Info(format).max_code);
    float y[4];
    float& scale = matrix.Scales(1)[1];
    scale = std::nextafter(largest / code, 0.0f);
    DequantizeRow(matrix.view(), 1, y, "file: 'w'");
    for (const float bad : {std::nextafter(largest / code, largest) * (1 + 1e-6f),
                            -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      scale = bad;
      EXPECT_THAT(
          Call([&] { DequantizeRow(matrix.view(), 1, y, "file: 'w'"); }),
          testing::ThrowsMessage<Error>(testing::AllOf(testing::StartsWith("file: 'w': row 1, group 1: got scale "),
                                                       testing::HasSubstr("expected at most"))));
    }
  }
}

// A row is its codes' values times R^T.
TEST(QuantizedMatrix, CodesOfRotatedWeightsAreRotatedBack) {
  const Hadamard& rotation = PlanRotation(48, {12});
  QuantizedMatrixBuffer matrix(Format::kInt8, 1, 48, 48, 0, &rotation);
  std::vector<int8_t> codes(48);
  for (int i = 0; i < 48; ++i) codes[i] = static_cast<int8_t>(i * 5 - 90);
  Pack<int8_t>(Format::kInt8, codes, {matrix.Codes(0), matrix.view().RowBytes()});
  matrix.Scales(0)[0] = 0.5f;
  std::vector<float> y(48), expected(48);
  for (int i = 0; i < 48; ++i) expected[i] = 0.5f * codes[i];
  rotation.RotateBack(expected.data(), expected.data());
  DequantizeRow(matrix.view(), 0, y.data());
  EXPECT_EQ(y, expected);
  EXPECT_THAT(Call([&] { QuantizedMatrixBuffer(Format::kInt8, 1, 24, 24, 0, &rotation); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("got a rotation of 48 channels, expected 24")));
  // Twelve values near the end of f32, all with the sign that adds them up in one channel.
  for (int i = 0; i < 48; ++i) codes[i] = static_cast<int8_t>(rotation.paley()[i % 12 * 12] * 127);
  Pack<int8_t>(Format::kInt8, codes, {matrix.Codes(0), matrix.view().RowBytes()});
  matrix.Scales(0)[0] = 0.9f * std::numeric_limits<float>::max() / 127;
  EXPECT_THAT(Call([&] { DequantizeRow(matrix.view(), 0, y.data(), "file: 'w'"); }),
              testing::ThrowsMessage<Error>(testing::StartsWith("file: 'w': row 0: got values beyond f32")));
}

// Other tools have negative scales: GGUF's Q4_0 puts the value of the largest magnitude on -8.
TEST(QuantizedMatrix, ScalesMayBeNegative) {
  QuantizedMatrixBuffer matrix(*ParseMatrixFormat("int4+full"), 1, 4, 4);
  Pack<int8_t>(matrix.view().format, std::vector<int8_t>{-8, 7, 0, 1}, {matrix.Codes(0), matrix.view().RowBytes()});
  matrix.Scales(0)[0] = -0.5f;
  float y[4];
  DequantizeRow(matrix.view(), 0, y);
  EXPECT_THAT(y, testing::ElementsAre(4.0f, -3.5f, 0.0f, -0.5f));
}

TEST(QuantizedMatrix, ACodeThatTheFormatDoesNotHaveIsRefusedByName) {
  QuantizedMatrixBuffer matrix(Format::kInt4, 1, 64, 64);
  std::fill_n(matrix.Codes(0), matrix.view().RowBytes(), uint8_t{0});  // code -8
  matrix.Scales(0)[0] = 1.0f;
  float y[64];
  EXPECT_THAT(Call([&] { DequantizeRow(matrix.view(), 0, y, "file: 'w'"); }),
              testing::ThrowsMessage<Error>(testing::StartsWith("file: 'w': row 0: pack int4: got code -8 at 0")));
}

// 40 inputs are a block of 32 and one of 8.
TEST(QuantizedMatrix, ALastBlockMayBeShort) {
  QuantizedMatrixBuffer matrix(Format::kMxFp4, 1, 40, 32);
  EXPECT_EQ(matrix.view().Groups(), 2);
  EXPECT_EQ(matrix.view().GroupEnd(1), 40);
  EXPECT_EQ(matrix.view().Bytes(), 32u + 2u);  // nibbles of a group of 64, a byte per scale
  std::vector<float> values(40, 1.5f);
  values[39] = -6.0f;
  Pack<float>(Format::kMxFp4, values, {matrix.Codes(0), matrix.view().RowBytes()});
  EXPECT_EQ(matrix.SetScale(0, 0, {0.0f, 3.0f}).scale.scale, 0.5f);
  EXPECT_EQ(matrix.SetScale(0, 1, {0.0f, 48.0f}).scale.scale, 8.0f);
  std::vector<float> y(40);
  DequantizeRow(matrix.view(), 0, y.data());
  for (size_t i = 0; i < 39; ++i) EXPECT_EQ(y[i], i < 32 ? 0.75f : 12.0f) << i;
  EXPECT_EQ(y[39], -48.0f);
}

// A tensor of 5376 = 2 * 448 * 6: t is 2. Blocks of 84 and of zeros.
TEST(QuantizedMatrix, TwoLevelsOfScales) {
  QuantizedMatrixBuffer matrix(Format::kNvFp4, 1, 32, 16, 5376.0f);
  EXPECT_EQ(matrix.view().of_tensor, 2.0f);
  EXPECT_EQ(matrix.view().Bytes(), 32u + 2u + 4u);
  EXPECT_EQ(matrix.SetScale(0, 0, {0.0f, 84.0f}).scale.scale, 14.0f);
  EXPECT_EQ(matrix.view().scale_codes[0], 0b01001110);  // E4M3's 7
  EXPECT_EQ(matrix.SetScale(0, 1, {0.0f, 0.0f}).scale.inv, 0.0f);
  EXPECT_EQ(matrix.view().ScaleOf(0, 0), 14.0f);
  EXPECT_EQ(matrix.view().ScaleOf(0, 1), 0.0f);
}

// 6 * 2^126 is beyond f32, and E8M0's 255 is no scale.
TEST(QuantizedMatrix, ScalesThatAreFormatsAreRefusedAlike) {
  QuantizedMatrixBuffer matrix(*ParseFormat("mxfp4:ceil"), 1, 32, 32);
  Pack<float>(*ParseFormat("mxfp4:ceil"), std::vector<float>(32, 1.0f), {matrix.Codes(0), matrix.view().RowBytes()});
  std::vector<float> y(32);
  const auto refused = testing::ThrowsMessage<Error>(testing::HasSubstr("row 0, group 0: got scale"));
  matrix.SetScale(0, 0, {0.0f, 0x1p126f});
  EXPECT_NO_THROW(DequantizeRow(matrix.view(), 0, y.data()));
  matrix.SetScale(0, 0, {0.0f, std::numeric_limits<float>::max()});
  EXPECT_THAT([&] { DequantizeRow(matrix.view(), 0, y.data()); }, refused);
  QuantizedMatrix none = matrix.view();
  const uint8_t nan = 255;
  none.scale_codes = &nan;
  EXPECT_THAT([&] { DequantizeRow(none, 0, y.data()); }, refused);
}

TEST(QuantizedMatrix, GroupsOfAGranularity) {
  EXPECT_EQ(GroupOf(*ParseGranularity("channel"), 96), 96);
  EXPECT_EQ(GroupOf(*ParseGranularity("tensor"), 96), 96);
  EXPECT_EQ(GroupOf(*ParseGranularity("group32"), 96), 32);
}

TEST(QuantizedMatrix, ShapesThatDoNotFitAreRefused) {
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kF32, 1, 1, 1), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kInt8, 0, 1, 1), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kInt8, 1, 4, 3), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kInt8, 1, 4, 0), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kInt8, 1, 4, 8), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kNf4, 1, 4, 3), Error);
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kMxFp4, 1, 64, 16), Error);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THROW(QuantizedMatrixBuffer(Format::kInt4, kHuge, kHuge, kHuge), Error);
}

// 3 x 64 at 4 bits with a scale of 16 bits per 32 values are 4.5 bits per weight.
TEST(ForeignMatrix, BitsPerWeightCountAllThatIsStored) {
  const SchemeTotals totals{.matrices = 1, .values = 3 * 64, .bytes = 3 * 64 / 2 + 3 * 2 * 2};
  EXPECT_EQ(totals.BitsPerWeight(), 4.5);
}

TEST(IntegerForm, SignedCodesTakeTheNarrowestFormat) {
  EXPECT_EQ(NarrowestFormat(-2, 1, {CodeRange::kOwn, CodeRange::kFull}), *ParseMatrixFormat("int2+full"));
  EXPECT_EQ(NarrowestFormat(-3, 3, {CodeRange::kOwn, CodeRange::kFull}), Format::kInt3);
  EXPECT_EQ(NarrowestFormat(-7, 7, {CodeRange::kOwn, CodeRange::kFull}), Format::kInt4);
  EXPECT_EQ(NarrowestFormat(-8, 7, {CodeRange::kOwn, CodeRange::kFull}), *ParseMatrixFormat("int4+full"));
  EXPECT_EQ(NarrowestFormat(-7, 8, {CodeRange::kOwn, CodeRange::kFull}), Format::kInt6);
  EXPECT_EQ(NarrowestFormat(-32, 31, {CodeRange::kOwn, CodeRange::kFull}), *ParseMatrixFormat("int6+full"));
  EXPECT_EQ(NarrowestFormat(-127, 113, {CodeRange::kOwn, CodeRange::kFull}), Format::kInt8);
  EXPECT_EQ(NarrowestFormat(-128, 127, {CodeRange::kOwn, CodeRange::kFull}), *ParseMatrixFormat("int8+full"));
  EXPECT_EQ(NarrowestFormat(0, 128, {CodeRange::kOwn, CodeRange::kFull}), std::nullopt);
}

TEST(IntegerForm, CodesFromZeroTakeTheNarrowestFormat) {
  EXPECT_EQ(NarrowestFormat(0, 3, {CodeRange::kZero}), *ParseMatrixFormat("int2+zero"));
  EXPECT_EQ(NarrowestFormat(0, 4, {CodeRange::kMin}), *ParseMatrixFormat("int3+min"));
  EXPECT_EQ(NarrowestFormat(0, 15, {CodeRange::kZero}), *ParseMatrixFormat("int4+zero"));
  EXPECT_EQ(NarrowestFormat(0, 16, {CodeRange::kZero}), *ParseMatrixFormat("int6+zero"));
  EXPECT_EQ(NarrowestFormat(0, 64, {CodeRange::kMin}), *ParseMatrixFormat("int8+min"));
  EXPECT_EQ(NarrowestFormat(0, 256, {CodeRange::kMin}), std::nullopt);
}

}  // namespace
}  // namespace tare::quantized_matrix_test
