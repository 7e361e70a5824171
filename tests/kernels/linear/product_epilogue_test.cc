// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/product_epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quant/base/aligned.h"

namespace tare::product_epilogue_test {
namespace {

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
  const InputSums x{x_sums.data() + 2, kStride};
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
}  // namespace tare::product_epilogue_test
