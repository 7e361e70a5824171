// SPDX-License-Identifier: Apache-2.0
// The header's formulas one value at a time, and what whole problems meet once in a million rows: differences whose
// ends, or whose codes, lie at ties.
#include "kernels/attention/integer/code_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/row_block.h"
#include "quant/base/aligned.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/code_runs.h"
#include "tests/support/each_target.h"

namespace tare::code_stage_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kRows = RandomBlock::kRows, kTiles = RandomBlock::kTiles;

TEST(CodeStage, LateCodesAreTheFormulas) {
  for (const Format& format : kMapFormats) {
    LateRun run(1, Info(format).max_code);
    OnEachTarget(kFmaTargets, [&] {
      run.Run();
      ASSERT_EQ(run.Wrong(), "") << Name(format);
    });
  }
}

// A row's maximum elsewhere, above those of this block, by more than a f32 can hold in one row; codes up to 127; sums
// before rounding.
TEST(CodeStage, LateCodesOfARowsScaleAreTheFormulas) {
  LateRun run(7, 127);
  run.row_max.Reset(kRows);
  run.unnormalized = true;
  for (int r = 0; r < kRows; ++r)
    run.row_max[r] = r == 5 ? -kInfinity : run.Largest(r) + static_cast<float>(r % 3 * 1500 + (r == 9 ? 400000 : 0));
  OnEachTarget(kFmaTargets, [&] {
    run.Run();
    ASSERT_EQ(run.Wrong(), "");
  });
}

// Rows that begin without a key, that rise by less than 60 octaves, and by more, in the first block or a later one.
TEST(CodeStage, BlocksMergeAsTheFormulasSay) {
  const RandomBlock block(6);  // its tiles as blocks
  AlignedBuffer<float> max(kTiles * kRows), reference(kRows), norm(kRows), scales(kTiles * kRows), shrinks(kRows),
      sums(kTiles * kRows);
  for (int i = 0; i < kTiles * kRows; ++i) max[i] = block.max[i], sums[i] = static_cast<float>(block.exp_sums[i] / 128);
  for (const float before : {-kInfinity, 0.0f, 150000.0f}) {
    OnEachTarget(kAllTargets, [&] {
      std::fill_n(reference.data(), kRows, before);
      std::fill_n(norm.data(), kRows, before < 0 ? 0.0f : 3.0f);
      const bool any = MergeBlocks({.rows = kRows,
                                    .blocks = kTiles,
                                    .block_max = max.data(),
                                    .code_sums = sums.data(),
                                    .reference = reference.data(),
                                    .norm = norm.data(),
                                    .row_scales = scales.data(),
                                    .shrinks = shrinks.data()});
      bool want_any = false;
      for (int r = 0; r < kRows; ++r) {
        float want_reference = before, want_norm = before < 0 ? 0.0f : 3.0f, want_shrink = 1;
        std::vector<float> want_scales;
        for (int t = 0; t < kTiles; ++t) {
          const float largest = max[t * kRows + r];
          if (largest - want_reference > 60 * 2048) {
            const float less = RowExp2((want_reference - largest) / 2048);
            want_norm *= less;
            want_shrink *= less;
            for (float& scale : want_scales) scale *= less;
            want_reference = largest;
          }
          want_scales.push_back(RowExp2((largest - want_reference) / 2048));
          want_norm = want_norm + want_scales.back() * sums[t * kRows + r];
        }
        want_any |= want_shrink != 1;
        ASSERT_EQ(reference[r], want_reference) << r;
        ASSERT_EQ(norm[r], want_norm) << r;
        ASSERT_EQ(shrinks[r], want_shrink) << r;
        for (int t = 0; t < kTiles; ++t) ASSERT_EQ(scales[t * kRows + r], want_scales[t]) << r << ' ' << t;
      }
      ASSERT_EQ(any, want_any) << before;
    });
  }
}

TEST(CodeStage, EarlyWeightsAreTheFormulasAndMayReplaceTheMaxima) {
  const RandomBlock block(2);
  AlignedBuffer<float> lambda(kRows), largest(kRows), weights(kTiles * kRows);
  for (int r = 0; r < kRows; ++r) lambda[r] = 0.1f * static_cast<float>(r) - 1;
  OnEachTarget(kAllTargets, [&] {
    for (const float* factor : {static_cast<const float*>(nullptr), static_cast<const float*>(lambda.data())}) {
      std::copy_n(block.max.data(), block.max.size(), weights.data());
      EarlyWeights(kRows, kTiles, factor, weights.data(), block.exp_sums.data(), largest.data(), weights.data());
      for (int r = 0; r < kRows; ++r) {
        float sum = 0;
        for (int t = 0; t < kTiles; ++t) sum += block.Below(t, r) * static_cast<float>(block.exp_sums[t * kRows + r]);
        const float share = sum > 0 ? (factor == nullptr ? 1.0f : factor[r]) / sum : 0.0f;
        for (int t = 0; t < kTiles; ++t) ASSERT_EQ(weights[t * kRows + r], block.Below(t, r) * share) << r << ' ' << t;
      }
    }
  });
}

TEST(CodeStage, EarlyCodesAreTheFormulas) {
  for (const Format& format : kDifferenceFormats) {
    EarlyRun run(format);
    OnEachTarget(kFmaTargets, [&] {
      run.Run();
      ASSERT_EQ(run.Wrong(), "") << Name(format);
    });
  }
}

struct Coded {
  std::vector<int> bytes;
  int zero;
};

// Bytes of a row of differences: each is map 1's or map 2's p alone, weighed with 32767 / 32768.
Coded CodesOf(const std::vector<int>& differences, Format format) {
  AlignedBuffer<int16_t> exps1(16 * 64), exps2(16 * 64);
  AlignedBuffer<uint8_t> codes(16 * 64);
  AlignedBuffer<float> weights(16), scales(16);
  AlignedBuffer<int32_t> zeros(16);
  std::fill_n(exps1.data(), exps1.size(), int16_t{0});
  std::fill_n(exps2.data(), exps2.size(), int16_t{0});
  std::fill_n(weights.data(), weights.size(), 1.0f);
  for (size_t i = 0; i < differences.size(); ++i) {
    const int size = std::abs(differences[i]);
    int p = size;
    while (((p * 32767 + 16384) >> 15) < size) ++p;
    (differences[i] < 0 ? exps2 : exps1)[ExpOfKey(static_cast<int>(i))] = static_cast<int16_t>(p);
  }
  EarlyStage({.rows = 16,
              .tiles = 1,
              .format = format,
              .weights1 = weights.data(),
              .weights2 = weights.data(),
              .exps1 = exps1.data(),
              .exps2 = exps2.data(),
              .tile_stride = 16 * 64,
              .codes = codes.data(),
              .stride = 64,
              .scales = scales.data(),
              .zeros = zeros.data()});
  return {{codes.data(), codes.data() + differences.size()}, zeros[0]};
}

// -20293 / step is 128.5 and a few millionths: rounded first as an f32 product and then by an FMA, its code was -1.
TEST(CodeStage, TheSmallestDifferenceIsCode0) {
  const Coded coded = CodesOf({19977, -20293, 0}, Format::kU8);
  EXPECT_EQ(coded.bytes, (std::vector<int>{255, 0, coded.zero}));
}

// 2048 / step is 11.5: to the even code, wherever the zero point is (71 here).
TEST(CodeStage, TiesGoToTheEvenCodeBeforeTheZeroPointIsAdded) {
  const Coded coded = CodesOf({32766, -12646, 2048, 0}, Format::kU8);
  EXPECT_EQ(coded.zero, 71);
  EXPECT_EQ(coded.bytes, (std::vector<int>{255, 0, 71 + 12, 71}));
}

TEST(CodeStage, AllEndsStayInTheFormat) {
  for (const Format& format : kMapFormats) {
    for (int above = 0; above <= 32766; above += 331) {
      for (int below = 0; below <= 32766; below += 317) {
        const Coded coded = CodesOf({above, -below}, format);
        ASSERT_TRUE(coded.bytes[0] <= Info(format).max_code && coded.bytes[1] == 0) << above << ' ' << below;
      }
    }
  }
}

}  // namespace
}  // namespace tare::code_stage_test
