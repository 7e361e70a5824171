// SPDX-License-Identifier: Apache-2.0
// Logits, tables and codes against the header's formulas, one value at a time, on every target with FMA.
#include "kernels/attention/integer/score_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "quant/format/round.h"
#include "tests/support/each_target.h"
#include "tests/support/logit_sums.h"

namespace tare::logit_stage_test {
namespace {

struct Row {
  float absmax = 0, inv = 0, step = 0;
};

int EntryOf(int difference, float step) {
  return FixedExp2(static_cast<int>(std::nearbyint(std::min(static_cast<float>(difference) * step, 32767.0f))));
}

// All three steps of one tile, and what each wrote.
void ExpectTheFormulas(RandomSums& in, int qmax) {
  const LogitSums& s = in.sums;
  AlignedBuffer<float> logits(64 * 64), absmax(64), inv(64), steps(64), max(64);
  AlignedBuffer<uint16_t> table(64 * kLogitEntries);
  AlignedBuffer<int32_t> exp_sums(64);
  std::fill_n(absmax.data(), 64, 0.0f);
  absmax[1] = 1e6f;  // an earlier tile's
  LogitStage({.sums = s, .logits = logits.data(), .absmax = absmax.data()});
  Row rows[64];
  for (int r = 0; r < s.rows; ++r) {
    rows[r].absmax = r == 1 ? 1e6f : 0.0f;
    for (int key = 0; key < 64; ++key) {
      const float want = in.Sees(r, key) ? in.Logit(r, key) : 0.0f;
      ASSERT_EQ(logits[r * 64 + ColumnOfKey(key)], want) << r << ' ' << key;
      rows[r].absmax = std::max(rows[r].absmax, std::abs(want));
    }
    ASSERT_EQ(absmax[r], rows[r].absmax) << r;
  }

  LogitTables({.rows = s.rows,
               .qmax = qmax,
               .absmax = absmax.data(),
               .row_factors = in.row_factors.data(),
               .inv = inv.data(),
               .steps = steps.data(),
               .table = table.data()});
  for (int r = 0; r < s.rows; ++r) {
    if (rows[r].absmax >= kSmallestAbsmax) {
      rows[r].inv = static_cast<float>(qmax) / rows[r].absmax;
      rows[r].step = rows[r].absmax / static_cast<float>(qmax) * in.row_factors[r];
    }
    ASSERT_EQ(inv[r], rows[r].inv) << r;
    ASSERT_EQ(steps[r], rows[r].step) << r;
    for (int i = 0; i < kLogitEntries; ++i)
      ASSERT_EQ(table[r * kLogitEntries + i], EntryOf(i, rows[r].step)) << r << ' ' << i;
  }

  const std::vector<float> kept(logits.data(), logits.data() + s.rows * 64);
  auto* exps = reinterpret_cast<int16_t*>(logits.data());  // where the logits are
  LookupStage({.rows = s.rows,
               .qmax = qmax,
               .logits = logits.data(),
               .inv = inv.data(),
               .steps = steps.data(),
               .table = table.data(),
               .begin = s.begin,
               .end = s.end,
               .exps = exps,
               .max = max.data(),
               .exp_sums = exp_sums.data()});
  for (int r = 0; r < s.rows; ++r) {
    const auto code = [&](int key) {
      return static_cast<int>(std::nearbyint(double{kept[r * 64 + ColumnOfKey(key)]} * inv[r]));
    };
    int largest = -1000, sum = 0;
    for (int key = 0; key < 64; ++key) largest = in.Sees(r, key) ? std::max(largest, code(key)) : largest;
    for (int key = 0; key < 64; ++key) {
      const int want = in.Sees(r, key) ? EntryOf(largest - code(key), steps[r]) : 0;
      ASSERT_EQ(exps[r * 64 + ExpOfKey(key)], want) << r << ' ' << key;
      sum += want;
    }
    ASSERT_EQ(exp_sums[r], sum) << r;
    ASSERT_EQ(max[r],
              largest == -1000 ? -std::numeric_limits<float>::infinity() : static_cast<float>(largest) * steps[r]);
  }
}

TEST(LogitStage, EveryTargetGivesTheFormulasIntegers) {
  for (const int qmax : {127, 31, 7}) {
    for (const auto mask : {RandomSums::Mask::kNone, RandomSums::Mask::kRandom}) {
      for (const auto mean : {RandomSums::Mean::kNone, RandomSums::Mean::kOfQ}) {
        RandomSums in(64, mask, mean, static_cast<unsigned>(qmax));
        OnEachTarget(kFmaTargets, [&] { ExpectTheFormulas(in, qmax); });
      }
    }
  }
}

TEST(LogitStage, RowsOfZerosAreEqualLogits) {
  RandomSums in(4, RandomSums::Mask::kNone, RandomSums::Mean::kNone, 3);
  std::fill_n(in.key_scales.data(), 64, 0.0f);
  OnEachTarget(kFmaTargets, [&] { ExpectTheFormulas(in, 31); });
}

}  // namespace
}  // namespace tare::logit_stage_test
