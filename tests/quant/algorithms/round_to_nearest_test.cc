// SPDX-License-Identifier: Apache-2.0
// Code for code against the scalar rule, and the least squared error against an independent search.
#include "quant/algorithms/round_to_nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/base/message.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/quantize_group.h"
#include "tests/support/random_quantized.h"

namespace tare::round_to_nearest_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Format kFormats[] = {Format::kInt8, Format::kInt6, Format::kInt4};

TEST(RoundToNearest, CodesAndScalesAreTheRules) {
  for (const Format& format : kFormats) {
    for (const int64_t in : {1, 5, 64, 130, 192}) {
      for (const int64_t group : {in, in % 32 == 0 ? int64_t{32} : int64_t{1}}) {
        std::vector<float> row = RandomNormal(static_cast<size_t>(in), 7);
        for (int64_t i = 0; i < in; i += 9) row[i] = 0.5f * static_cast<float>(i % 5);  // ties among them
        QuantizedMatrixBuffer matrix(format, 1, in, group);
        RoundRowToNearest(row.data(), ClipChoice::kAbsmax, matrix, 0);
        std::vector<int8_t> codes(static_cast<size_t>(in));
        Unpack<int8_t>(format, {matrix.Codes(0), matrix.view().RowBytes()}, codes);
        std::vector<int16_t> expected(static_cast<size_t>(group));
        for (int64_t g = 0; g < in / group; ++g) {
          const float scale = QuantizeGroup({row.data() + g * group, static_cast<size_t>(group)}, format, expected);
          ASSERT_EQ(matrix.Scales(0)[g], scale);
          for (int64_t i = 0; i < group; ++i) ASSERT_EQ(codes[g * group + i], expected[i]) << Name(format);
        }
      }
    }
  }
}

TEST(RoundToNearest, ZerosTinyAndHugeValues) {
  for (const float value : {0.0f, 0x1p-110f, std::numeric_limits<float>::denorm_min()}) {
    const std::vector<float> row(8, value);
    for (const ClipChoice choice : {ClipChoice::kAbsmax, ClipChoice::kLeastSquares}) {
      QuantizedMatrixBuffer matrix(Format::kInt4, 1, 8, 8);
      RoundRowToNearest(row.data(), choice, matrix, 0);
      EXPECT_EQ(matrix.Scales(0)[0], 0.0f);
      float y[8];
      DequantizeRow(matrix.view(), 0, y);
      EXPECT_THAT(y, testing::Each(0.0f));
    }
  }
  const std::vector<float> row = {0x1p127f, -0x1p127f};
  QuantizedMatrixBuffer matrix(Format::kInt8, 1, 2, 2);
  RoundRowToNearest(row.data(), ClipChoice::kAbsmax, matrix, 0);
  float y[2];
  DequantizeRow(matrix.view(), 0, y);
  EXPECT_NEAR(y[0] / row[0], 1.0, 1e-6);
}

double ErrorOf(const QuantizedMatrixBuffer& matrix, const std::vector<float>& row) {
  std::vector<float> y(row.size());
  DequantizeRow(matrix.view(), 0, y.data());
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += std::pow(double{y[i]} - double{row[i]}, 2);
  return sum;
}

TEST(RoundToNearest, LeastSquaresIsNeverWorseAndClipsAnOutlier) {
  for (const Format& format : kFormats) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::vector<float> row = RandomNormal(64, seed);
      row[13] *= 1.5f;
      QuantizedMatrixBuffer absmax(format, 1, 64, 64), least(format, 1, 64, 64);
      RoundRowToNearest(row.data(), ClipChoice::kAbsmax, absmax, 0);
      RoundRowToNearest(row.data(), ClipChoice::kLeastSquares, least, 0);
      EXPECT_LE(ErrorOf(least, row), ErrorOf(absmax, row));
      // The choice is the best of its 32 candidates.
      for (int i = 0; i < 32; ++i) {
        const float clip = AbsMax(row) * (1.0f - static_cast<float>(i) / 64.0f);
        double sum = 0;
        for (const float x : row) {
          const Scale scale = ScaleFor(clip, format);
          sum += std::pow(double{x} - double{scale.scale} * CodeOf(x, scale.inv, format), 2);
        }
        EXPECT_LE(ErrorOf(least, row), sum * (1 + 1e-5));
      }
    }
  }
}

// Against sums in plain loops over the 32 candidates.
TEST(RoundToNearest, ImportanceWeighsTheSquaredErrors) {
  int changed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<float> row = RandomNormal(64, seed), ones(64, 1.0f);
    std::vector<float> importance = RandomNormal(64, seed + 100);
    for (float& x : importance) x *= x;
    const auto chosen = [&](const float* by) {
      return ChooseEnds(row.data(), 64, Format::kInt4, ClipChoice::kLeastSquares, 0, by);
    };
    const auto error_with = [&](float clip) {
      const Scale scale = ScaleFor(clip, Format::kInt4);
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i)
        sum += importance[i] *
               std::pow(double{row[i]} - double{scale.scale} * CodeOf(row[i], scale.inv, Format::kInt4), 2);
      return sum;
    };
    const float best = chosen(importance.data()).high;
    for (int i = 0; i < 32; ++i)
      EXPECT_LE(error_with(best), error_with(AbsMax(row) * (1.0f - static_cast<float>(i) / 64.0f)) * (1 + 1e-5));
    EXPECT_EQ(chosen(ones.data()).high, chosen(nullptr).high);
    changed += best != chosen(nullptr).high ? 1 : 0;
  }
  EXPECT_GT(changed, 5);
}

// t = 1 with a row's largest of 2688. Codes of the second block are those of a scale of 7 / 6, but stand for 1.125,
// E4M3's nearest; the third's scale 2^-10 is nearest to 0.
TEST(RoundToNearest, TwoLevelsOfARow) {
  std::vector<float> row(40);
  row[0] = -2688, row[1] = 1100, row[2] = 100;
  row[16] = 7, row[17] = -3.5f, row[18] = 0.2f, row[19] = 2.9f;
  row[32] = 6 * 0x1p-10f;
  std::vector<float> expected(40);
  expected[0] = -2688, expected[1] = 2 * 448;
  expected[16] = 6.75f, expected[17] = -3.375f, expected[19] = 2.25f;  // 3.375 of a scale of 1.125
  for (const float times : {1.0f, 0x1p-90f, 0x1p90f}) {
    std::vector<float> rounded = row;
    for (float& x : rounded) x *= times;
    RoundInBlocksOfRow(rounded, Format::kNvFp4);
    for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(rounded[i], expected[i] * times) << i;
  }
  std::vector<float> tiny(17, 0x1p-101f);
  RoundInBlocksOfRow(tiny, Format::kNvFp4);
  EXPECT_EQ(AbsMax(tiny), 0);
  RoundInBlocksOfRow({}, Format::kNvFp4);
}

TEST(RoundToNearest, NanAndInfinityAreNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> row(70, 1.0f);
    row[66] = bad;
    QuantizedMatrixBuffer matrix(Format::kInt8, 3, 70, 70);
    EXPECT_THAT(Call([&] { RoundRowToNearest(row.data(), ClipChoice::kAbsmax, matrix, 2); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("row 2"), HasSubstr("at 66"))));
  }
}

}  // namespace
}  // namespace tare::round_to_nearest_test
