// SPDX-License-Identifier: Apache-2.0
// Logits, tables and codes against the header's formulas, one value at a time, on every target with FMA.
#include "kernels/attention/integer/score_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/each_target.h"
#include "tests/support/score_runs.h"

namespace tare::logit_stage_test {
namespace {

void ExpectTheFormulas(RandomSums& in, const Format& format) {
  LogitRun run(in, Info(format).max_code);
  run.Logits();
  run.Tables();
  run.Lookup();
  ASSERT_EQ(run.Wrong(), "") << Name(format);
  const std::vector<int16_t> exps(run.exps.data(), run.exps.data() + in.sums.rows * 64);
  auto* over = reinterpret_cast<int16_t*>(run.logits.data());  // exps may begin where the logits do
  LookupStage({.rows = in.sums.rows,
               .qmax = run.qmax,
               .logits = run.logits.data(),
               .inv = run.inv.data(),
               .steps = run.steps.data(),
               .table = run.table.data(),
               .begin = in.sums.begin,
               .end = in.sums.end,
               .exps = over,
               .max = run.max.data(),
               .exp_sums = run.exp_sums.data()});
  ASSERT_TRUE(std::ranges::equal(exps, std::span(over, exps.size()))) << "over the logits";
}

TEST(LogitStage, EveryTargetGivesTheFormulasIntegers) {
  for (const Format& format : kSignedFormats) {
    for (const auto mask : {RandomSums::Mask::kNone, RandomSums::Mask::kRandom}) {
      for (const auto mean : {RandomSums::Mean::kNone, RandomSums::Mean::kOfQ}) {
        RandomSums in(64, mask, mean, static_cast<unsigned>(Info(format).bits));
        OnEachTarget(kFmaTargets, [&] { ExpectTheFormulas(in, format); });
      }
    }
  }
}

TEST(LogitStage, RowsOfZerosAreEqualLogits) {
  RandomSums in(4, RandomSums::Mask::kNone, RandomSums::Mean::kNone, 3);
  std::fill_n(in.key_scales.data(), 64, 0.0f);
  OnEachTarget(kFmaTargets, [&] { ExpectTheFormulas(in, Format::kInt6); });
}

}  // namespace
}  // namespace tare::logit_stage_test
