// SPDX-License-Identifier: Apache-2.0
// Codes one by one against the scalar rule, at every width around the vector widths.
#include "kernels/linear/product_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/aligned.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/quantize_group.h"
#include "tests/support/random_quantized.h"

namespace tare::product_stage_test {
namespace {

TEST(TokenCodes, EveryWidthIsTheRule) {
  for (const Format& format : kSignedFormats) {
    for (size_t n = 1; n < 300; ++n) {
      std::vector<float> x = RandomNormal(n, static_cast<unsigned>(n));
      if (n > 3) x[n / 2] = -5.0f, x[n - 1] = 2.5f, x[0] = 0.0f;  // exact halves of steps among them
      const size_t padded = (n + 15) / 16 * 16;
      std::vector<uint8_t> codes(padded + 1, 77);
      std::vector<int16_t> expected(n);
      const float scale = QuantizeGroup(x, format, expected);
      ASSERT_EQ(ToTokenCodes(x.data(), static_cast<int64_t>(n), format, {}, codes.data(), static_cast<int64_t>(padded)),
                scale);
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(int{codes[i]} - 128, expected[i]) << n << " " << i;
      for (size_t i = n; i < padded; ++i) ASSERT_EQ(codes[i], 128);
      ASSERT_EQ(codes[padded], 77);
    }
  }
}

// A static scale: values beyond the clip take the largest code.
TEST(TokenCodes, AClipIsTheRuleWithThatMagnitude) {
  for (const Format& format : kSignedFormats) {
    for (const float clip : {0.0f, 0.7f, 1.5f, 100.0f}) {
      for (const size_t n : {1u, 15u, 64u, 131u, 200u}) {
        std::vector<float> x = RandomNormal(n, static_cast<unsigned>(n));
        x[n / 2] = 3e38f;
        std::vector<uint8_t> codes(208);
        const Scale scale = ScaleFor(clip, format);
        ASSERT_EQ(ToTokenCodes(x.data(), static_cast<int64_t>(n), format, clip, codes.data(), 208), scale.scale);
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(int{codes[i]} - 128, CodeOf(x[i], scale.inv, format)) << n << " " << i;
      }
    }
  }
}

// Each code by the scalar rule, and times its step what the rule makes of the value; a block may be short, or zeros.
TEST(BlockCodes, EveryWidthIsTheRule) {
  for (const char* name : {"mxfp4", "mxfp4:rceil:ties-away", "mxfp6e2m3", "mxint8", "nvfp4", "nvfp4:t1", "nvfp4:4over6",
                           "nvint4", "if4"}) {
    const Format format = *ParseFormat(name);
    const auto block = static_cast<size_t>(Info(format).block);
    const double grid_step = double{AsStepCodes(format)->step};
    for (size_t n = 1; n < 100; ++n) {
      std::vector<float> x = RandomNormal(n, static_cast<unsigned>(n));
      if (n > 70) std::fill_n(x.begin() + 32, 32, 0.0f);
      const float of_tensor = 2 * AbsMax(x);
      std::vector<uint8_t> codes(112, 77);
      std::vector<float> steps((n + block - 1) / block + 1, -1.0f);
      ASSERT_EQ(ToBlockCodes(x.data(), static_cast<int64_t>(n), format, of_tensor, codes.data(), 111, steps.data()), 1);
      for (size_t i = 0; i < n; ++i) {
        const size_t begin = i / block * block, count = std::min(block, n - begin);
        const std::span<const float> values(&x[begin], count);
        const float end = BlockEnd(values.data(), std::ssize(values), format, AbsMax(values), of_tensor);
        const Scale scale = ScaleFor(end, format, of_tensor);
        const float rounded = Rounded(x[i], scale.inv, format);
        ASSERT_EQ(codes[i] - 128, std::llround(rounded / (scale.inv < 0 ? 6.0 / 7 : grid_step))) << name << ' ' << i;
        ASSERT_FLOAT_EQ(static_cast<float>(codes[i] - 128) * steps[i / block], rounded * scale.scale) << name;
      }
      for (size_t i = n; i < 111; ++i) ASSERT_EQ(codes[i], 128);
      ASSERT_EQ(codes[111], 77);
      ASSERT_EQ(steps.back(), -1);
      x[n / 2] = std::numeric_limits<float>::quiet_NaN();
      ASSERT_TRUE(std::isnan(ToBlockCodes(x.data(), static_cast<int64_t>(n), format, 1, codes.data(), 111, &steps[0])));
    }
  }
}

TEST(TokenCodes, ZerosAndTinyRowsAreCodeZero) {
  for (const float value : {0.0f, 0x1p-101f}) {
    const std::vector<float> x(37, value);
    std::vector<uint8_t> codes(48);
    EXPECT_EQ(ToTokenCodes(x.data(), 37, Format::kInt8, {}, codes.data(), 48), 0.0f);
    for (const uint8_t code : codes) EXPECT_EQ(code, 128);
  }
}

TEST(TokenCodes, NotFiniteIsSeenWhereverItStands) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (size_t at = 0; at < 150; ++at) {
      std::vector<float> x(150, 1.0f);
      x[at] = bad;
      std::vector<uint8_t> codes(160);
      EXPECT_TRUE(std::isnan(ToTokenCodes(x.data(), 150, Format::kInt8, {}, codes.data(), 160))) << at;
    }
  }
}

// Small integers and powers of two: exact in f32, so equality.
TEST(ProductEpilogue, GroupsAddUpAndOnlyColumnsThatExistAreWritten) {
  constexpr int64_t kRows = 5;
  AlignedBuffer<int32_t> sums(kRows * 64), code_sums(64);
  AlignedBuffer<float> total(kRows * 64), scales(64);
  for (int i = 0; i < kRows * 64; ++i) sums[i] = i * 7 - 900;
  for (int n = 0; n < 64; ++n) code_sums[n] = n - 30, scales[n] = n % 2 == 0 ? 0.5f : 2.0f;
  std::fill_n(total.data(), total.size(), 1e30f);  // what a first group does not add to
  const GroupWeights weights{code_sums.data(), scales.data(), nullptr};
  AddGroup(sums.data(), weights, {}, kRows, GroupOrder::kFirst, total.data());
  AddGroup(sums.data(), weights, {}, kRows, GroupOrder::kLater, total.data());
  const float x_scales[] = {1, 2, 4, 0, 0.5f};
  for (const int64_t columns : {1, 15, 16, 17, 63, 64}) {
    float bias[64];
    for (int n = 0; n < 64; ++n) bias[n] = static_cast<float>(n);
    std::vector<float> y(kRows * 70, -1.0f);
    FinishTile(total.data(), x_scales, bias, kRows, columns, y.data(), 70);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t n = 0; n < 70; ++n) {
        const float expected =
            n < columns
                ? 2.0f * static_cast<float>(sums[r * 64 + n] - 128 * code_sums[n]) * scales[n] * x_scales[r] + bias[n]
                : -1.0f;
        ASSERT_EQ(y[r * 70 + n], expected) << r << " " << n << " of " << columns;
      }
    }
  }
}

// Row r's sum of the group's inputs is at r * stride, those of other groups between.
TEST(ProductEpilogue, OffsetsAreMultipliedByTheSumsOfTheInputs) {
  constexpr int64_t kRows = 3, kStride = 4;
  AlignedBuffer<int32_t> sums(kRows * 64), code_sums(64);
  AlignedBuffer<float> total(kRows * 64), scales(64), offsets(64);
  std::vector<float> x_sums(kRows * kStride, 1e30f);
  for (int i = 0; i < kRows * 64; ++i) sums[i] = i * 5 - 300;
  for (int n = 0; n < 64; ++n) code_sums[n] = 20 - n, scales[n] = 0.25f, offsets[n] = 0.5f * static_cast<float>(n - 9);
  for (int64_t r = 0; r < kRows; ++r) x_sums[r * kStride + 2] = static_cast<float>(100 * r - 50);
  const GroupWeights weights{code_sums.data(), scales.data(), offsets.data()};
  const PartInputs x{.sums = x_sums.data() + 2, .stride = kStride};
  for (const GroupOrder order : {GroupOrder::kFirst, GroupOrder::kLater}) {
    AddGroup(sums.data(), weights, x, kRows, order, total.data());
    for (int64_t i = 0; i < kRows * 64; ++i) {
      const float once = 0.25f * static_cast<float>(sums[i] - 128 * code_sums[i % 64]) +
                         offsets[i % 64] * x_sums[i / 64 * kStride + 2];
      ASSERT_EQ(total[i], order == GroupOrder::kFirst ? once : 2 * once) << i;
    }
  }
}

}  // namespace
}  // namespace tare::product_stage_test
