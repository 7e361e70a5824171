// SPDX-License-Identifier: Apache-2.0
// The stages from the product of Q and K to exponentials, run on a seeded tile, and what is wrong with their results
// against the formulas of score_stage.h, one value at a time, integer for integer: "" or the first that differs.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/row_block.h"
#include "quant/format/round.h"
#include "tests/support/fixed_exp2.h"
#include "tests/support/logit_sums.h"
#include "tests/support/wrong.h"

namespace tare {

struct ScoreRun {
  explicit ScoreRun(RandomSums& sums) : in(sums) {}

  void Run() {
    ScoreStage({.logits = in.sums,
                .row_factors = in.row_factors.data(),
                .exps = exps.data(),
                .max = max.data(),
                .exp_sums = exp_sums.data()});
  }
  std::string Wrong() const {
    std::string wrong;
    for (int r = 0; r < in.sums.rows && wrong.empty(); ++r) {
      float largest = -std::numeric_limits<float>::infinity();
      for (int key = 0; key < 64; ++key) largest = in.Sees(r, key) ? std::max(largest, in.Logit(r, key)) : largest;
      int sum = 0;
      for (int key = 0; key < 64; ++key) {
        int want = 0;
        if (in.Sees(r, key)) {
          // The difference is rounded to f32; the product of two f32 is exact in double.
          const double units = std::nearbyint(double{largest - in.Logit(r, key)} * in.row_factors[r]);
          want = FixedExp2(static_cast<int>(std::min(units, 32767.0)));
        }
        if (wrong.empty()) wrong = WrongValue(Formatted("row {}, key", r), key, exps[r * 64 + ExpOfKey(key)], want, 0);
        sum += want;
      }
      if (wrong.empty()) wrong = WrongValue("sum of row", r, exp_sums[r], sum, 0);
      if (max[r] != largest * in.row_factors[r]) wrong += Formatted("; maximum of row {}: got {}", r, max[r]);
    }
    return wrong;
  }

  RandomSums& in;
  AlignedBuffer<int16_t> exps = Unwritten<int16_t>(64 * 64);
  AlignedBuffer<float> max = Unwritten<float>(64);
  AlignedBuffer<int32_t> exp_sums = Unwritten<int32_t>(64);
};

// Quantized logits: three steps of one tile.
struct LogitRun {
  LogitRun(RandomSums& sums, int largest_code) : in(sums), qmax(largest_code) { Reset(); }

  void Reset() {
    std::fill_n(absmax.data(), 64, 0.0f);
    absmax[1] = 1e6f;  // an earlier tile's
  }
  void Logits() { LogitStage({.sums = in.sums, .logits = logits.data(), .absmax = absmax.data()}); }
  void Tables() {
    LogitTables({.rows = in.sums.rows,
                 .qmax = qmax,
                 .absmax = absmax.data(),
                 .row_factors = in.row_factors.data(),
                 .inv = inv.data(),
                 .steps = steps.data(),
                 .table = table.data()});
  }
  void Lookup() {
    LookupStage({.rows = in.sums.rows,
                 .qmax = qmax,
                 .logits = logits.data(),
                 .inv = inv.data(),
                 .steps = steps.data(),
                 .table = table.data(),
                 .begin = in.sums.begin,
                 .end = in.sums.end,
                 .exps = exps.data(),
                 .max = max.data(),
                 .exp_sums = exp_sums.data()});
  }
  std::string Wrong() const {
    std::string wrong;
    for (int r = 0; r < in.sums.rows && wrong.empty(); ++r) wrong = WrongRow(r);
    return wrong;
  }

  RandomSums& in;
  int qmax;
  AlignedBuffer<float> logits{64 * 64}, absmax{64}, inv{64}, steps{64}, max{64};
  AlignedBuffer<int16_t> exps{64 * 64};
  AlignedBuffer<uint16_t> table{64 * kLogitEntries};
  AlignedBuffer<int32_t> exp_sums{64};

 private:
  static int EntryOf(int difference, float step) {
    return FixedExp2(static_cast<int>(std::nearbyint(std::min(static_cast<float>(difference) * step, 32767.0f))));
  }
  std::string WrongRow(int r) const {
    std::string wrong;
    const auto expect = [&](const char* what, int i, double got, double want) {
      if (wrong.empty()) wrong = WrongValue(Formatted("row {}, {}", r, what), i, got, want, 0);
    };
    float largest_logit = r == 1 ? 1e6f : 0.0f;
    for (int key = 0; key < 64; ++key) {
      const float want = in.Sees(r, key) ? in.Logit(r, key) : 0.0f;
      expect("logit", key, logits[r * 64 + ColumnOfKey(key)], want);
      largest_logit = std::max(largest_logit, std::abs(want));
    }
    const bool zero = largest_logit < kSmallestAbsmax;
    const float step = zero ? 0.0f : largest_logit / static_cast<float>(qmax) * in.row_factors[r];
    expect("absmax", 0, absmax[r], largest_logit);
    expect("inv", 0, inv[r], zero ? 0.0f : static_cast<float>(qmax) / largest_logit);
    expect("step", 0, steps[r], step);
    for (int i = 0; i < kLogitEntries; ++i) expect("entry", i, table[r * kLogitEntries + i], EntryOf(i, step));
    const auto code = [&](int key) {
      const float logit = in.Sees(r, key) ? in.Logit(r, key) : 0.0f;
      return static_cast<int>(std::nearbyint(double{logit} * inv[r]));
    };
    constexpr int kNone = -1000;
    int largest = kNone, sum = 0;
    for (int key = 0; key < 64; ++key) largest = in.Sees(r, key) ? std::max(largest, code(key)) : largest;
    for (int key = 0; key < 64; ++key) {
      const int want = in.Sees(r, key) ? EntryOf(largest - code(key), step) : 0;
      expect("key", key, exps[r * 64 + ExpOfKey(key)], want);
      sum += want;
    }
    expect("sum", 0, exp_sums[r], sum);
    const float want_max =
        largest == kNone ? -std::numeric_limits<float>::infinity() : static_cast<float>(largest) * step;
    if (max[r] != want_max) wrong += Formatted("; maximum of row {}: got {}, expected {}", r, max[r], want_max);
    return wrong;
  }
};

}  // namespace tare
