// SPDX-License-Identifier: Apache-2.0
// Integer for integer against the header's formulas, one value at a time, on every target with FMA.
#include "kernels/attention/integer/score_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/support/each_target.h"
#include "tests/support/fixed_exp2.h"
#include "tests/support/score_runs.h"

namespace tare::score_stage_test {
namespace {

void ExpectTheFormulas(RandomSums& in) {
  ScoreRun run(in);
  run.Run();
  ASSERT_EQ(run.Wrong(), "");
  const LogitSums& s = in.sums;
  const std::vector<int16_t> with_sums(run.exps.data(), run.exps.data() + s.rows * 64);
  ScoreStage({.logits = s, .row_factors = in.row_factors.data(), .exps = run.exps.data(), .max = run.max.data()});
  ASSERT_TRUE(std::ranges::equal(with_sums, std::span(run.exps.data(), with_sums.size()))) << "without sums";
}

TEST(ScoreStage, EveryTargetGivesTheFormulasIntegers) {
  for (const int rows : {4, 16, 64}) {
    for (const auto mask : {RandomSums::Mask::kNone, RandomSums::Mask::kRandom}) {
      for (const auto mean : {RandomSums::Mean::kNone, RandomSums::Mean::kOfQ}) {
        RandomSums in(rows, mask, mean, 1);
        OnEachTarget(kFmaTargets, [&] { ExpectTheFormulas(in); });
      }
    }
  }
}

// 2047.5 and 2048.5 of an octave's 2048: both to the even neighbour.
TEST(ScoreStage, TiesGoToTheEvenStep) {
  RandomSums in(4, RandomSums::Mask::kNone, RandomSums::Mean::kNone, 2);
  std::fill_n(in.memory_sums.data(), 4 * 64, 0);
  std::fill_n(in.offsets.data(), 64, 0);
  std::fill_n(in.key_scales.data(), 64, 1.0f);
  std::fill_n(in.row_factors.data(), 4, 0.5f);
  for (int r = 0; r < 4; ++r)
    in.memory_sums[r * 64 + ColumnOfKey(5)] = -4095, in.memory_sums[r * 64 + ColumnOfKey(6)] = -4097;
  OnEachTarget(kFmaTargets, [&] {
    ExpectTheFormulas(in);
    AlignedBuffer<int16_t> exps(4 * 64);
    AlignedBuffer<float> max(64);
    AlignedBuffer<int32_t> exp_sums(64);
    ScoreStage({in.sums, in.row_factors.data(), exps.data(), max.data(), exp_sums.data()});
    EXPECT_EQ(exps[ExpOfKey(5)], FixedExp2(2048));
    EXPECT_EQ(exps[ExpOfKey(6)], FixedExp2(2048));
  });
}

}  // namespace
}  // namespace tare::score_stage_test
