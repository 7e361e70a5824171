// SPDX-License-Identifier: Apache-2.0
// The hot path of outlier statistics: one thread's scan over runs of floats, counting each into a flat table of the
// bins of MagnitudeHistogram. The table has kLanes counters per bin, and neighbouring values use different ones: values
// crowd in few bins, and an increment of the counter just stored would wait for that store. Measured in chunks of 256:
// 0.5 ns per value on a Zen 4 core at 2.6 GHz, 0.2 of them the maximum; reading two values with one load took the
// counting from 0.4 to 0.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/base/aligned.h"
#include "quant/observe/magnitude_histogram.h"

namespace tare {

class MagnitudeCounter {
 public:
  MagnitudeCounter();

  // Counts the run and returns its largest magnitude, 0 for an empty run: infinity if there is one, NaN if there is
  // one. Infinities and NaN are dropped by FlushInto. At most kMaxPending values between two flushes.
  float Count(std::span<const float> run);
  static constexpr uint64_t kMaxPending = uint64_t{1} << 31;
  uint64_t pending() const { return pending_; }

  // Adds the counts to the histogram and starts again from zero; visits the exponents from the largest down until every
  // value is found.
  void FlushInto(MagnitudeHistogram& histogram);

 private:
  static constexpr size_t kLanes = 4;

  // Moves one exponent's counts out; returns how many values it held.
  uint64_t FlushPage(int page, MagnitudeHistogram& histogram);

  AlignedBuffer<uint32_t> table_;  // [256 exponents, that of infinities and NaN too, x 128 bins][kLanes]
  uint64_t pending_ = 0;
  float largest_ = 0.0f;  // magnitude since the last flush
};

}  // namespace tare
