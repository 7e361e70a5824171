// SPDX-License-Identifier: Apache-2.0
// Small integers and powers of two: exact in f32 with FMA and without, so equality.
#include "kernels/attention/output_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "quant/base/aligned.h"
#include "tests/support/each_target.h"

namespace tare::output_stage_test {
namespace {

TEST(OutputStage, CodesLessTheirZeroTimesBothScales) {
  constexpr int kRows = 5;
  AlignedBuffer<int32_t> sums(kRows * 64), v_sums(64), zeros(16);
  AlignedBuffer<float> v_scales(64), row_scales(16), out((kRows + 1) * 64);
  for (int i = 0; i < kRows * 64; ++i) sums[i] = i * 31 % 2000 - 999;
  for (int i = 0; i < 64; ++i) v_sums[i] = i * 7 % 50 - 25, v_scales[i] = i % 3 == 0 ? 0.25f : 2.0f;
  for (int r = 0; r < kRows; ++r) zeros[r] = 60 * r, row_scales[r] = 0.5f * static_cast<float>(r);
  for (const bool has_zeros : {false, true}) {
    const OutputTile tile{.rows = kRows,
                          .sums = sums.data(),
                          .zeros = has_zeros ? zeros.data() : nullptr,
                          .v_sums = has_zeros ? v_sums.data() : nullptr,
                          .v_scales = v_scales.data(),
                          .row_scales = row_scales.data(),
                          .out = out.data()};
    OnEachTarget(kAllTargets, [&] {
      std::fill_n(out.data(), out.size(), 7.0f);
      OverwriteOutput(tile);
      AddOutput(tile);
      for (int i = 0; i < kRows * 64; ++i) {
        const int sum = sums[i] - (has_zeros ? zeros[i / 64] * v_sums[i % 64] : 0);
        ASSERT_EQ(out[i], 2 * static_cast<float>(sum) * (v_scales[i % 64] * row_scales[i / 64])) << i;
      }
      for (int i = 0; i < 64; ++i) ASSERT_EQ(out[kRows * 64 + i], 7.0f);
    });
  }
}

TEST(OutputStage, RowsOfEveryWidth) {
  constexpr int kRows = 3, kStride = 192;
  AlignedBuffer<float> out1(kRows * kStride), out2(kRows * kStride);
  for (int i = 0; i < kRows * kStride; ++i) {
    out1[i] = static_cast<float>(i % 61);
    out2[i] = static_cast<float>(i % 47);
  }
  const float factors1[] = {1, 0.5f, 0}, factors2[] = {0.25f, 2, 1}, mean_factors[] = {4, 0, 0.5f};
  std::vector<float> mean(kStride);
  for (int i = 0; i < kStride; ++i) mean[i] = static_cast<float>(i % 5);
  OnEachTarget(kAllTargets, [&] {
    for (const bool two : {false, true}) {
      for (const bool with_mean : {false, true}) {
        for (const int width : {1, 3, 15, 16, 17, 63, 64, 65, 130}) {
          const int to_stride = width + 3;
          std::vector<float> to(kRows * to_stride, 7.0f);
          WriteOutput({.rows = kRows,
                       .width = width,
                       .out1 = out1.data(),
                       .out2 = two ? out2.data() : nullptr,
                       .stride = kStride,
                       .factors1 = factors1,
                       .factors2 = factors2,
                       .mean = with_mean ? mean.data() : nullptr,
                       .mean_factors = mean_factors,
                       .to = to.data(),
                       .to_stride = to_stride});
          for (int r = 0; r < kRows; ++r) {
            for (int i = 0; i < to_stride; ++i) {
              const float want = out1[r * kStride + i] * factors1[r] - (two ? out2[r * kStride + i] * factors2[r] : 0) +
                                 (with_mean ? mean[i] * mean_factors[r] : 0);
              ASSERT_EQ(to[r * to_stride + i], i < width ? want : 7.0f) << width << ' ' << r << ' ' << i;
            }
          }
        }
      }
    }
  });
}

// What goes past the caches is the same values at the same places, whole lines or not, and nothing beside them.
TEST(OutputStage, PastTheCachesTheSameRows) {
  constexpr int kRows = 5, kStride = 64, kToStride = 96;
  AlignedBuffer<float> out1(kRows * kStride), to(kRows * kToStride + 16);
  for (int i = 0; i < kRows * kStride; ++i) out1[i] = static_cast<float>(i % 61);
  const float factors1[] = {1, 0.5f, 0, 2, 4}, mean_factors[] = {4, 0, 0.5f, 1, 2};
  std::vector<float> mean(kStride, 3.0f);
  const auto expect_rows = [&](int width, int to_stride, int offset, bool with_mean) {
    std::fill_n(to.data(), to.size(), 7.0f);
    WriteOutput({.rows = kRows,
                 .width = width,
                 .out1 = out1.data(),
                 .stride = kStride,
                 .factors1 = factors1,
                 .mean = with_mean ? mean.data() : nullptr,
                 .mean_factors = mean_factors,
                 .to = to.data() + offset,
                 .to_stride = to_stride,
                 .store = OutputStore::kPastCaches});
    FlushOutput();
    std::vector<float> want(to.size(), 7.0f);
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < width; ++i)
        want[offset + r * to_stride + i] = out1[r * kStride + i] * factors1[r] + (with_mean ? 3 * mean_factors[r] : 0);
    }
    ASSERT_TRUE(std::ranges::equal(want, to.span())) << width << ' ' << to_stride << ' ' << offset;
  };
  OnEachTarget(kAllTargets, [&] {
    for (const bool with_mean : {false, true}) {
      for (const int width : {16, 48, 64, 63, 24})  // the last two end inside a line
        for (const int to_stride : {kToStride, 64, 65, 72})
          for (const int offset : {0, 16, 1, 8}) expect_rows(width, to_stride, offset, with_mean);
    }
  });
}

}  // namespace
}  // namespace tare::output_stage_test
