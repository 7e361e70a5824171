// SPDX-License-Identifier: Apache-2.0
// Enumerates what shares a scale, for both the simulator of plans and the measurement of formats.
//
//   row, token           one row of a block
//   group<N>, block<N>   N neighbouring values of a row
//   channel              one column of a block (of q, k, v and head_out: all tokens of a sequence)
//   block<N>.channel     N rows of a column, from the block's first
//   tensor, head         rows in many blocks: their largest magnitudes must be gathered first (SharedMaxima)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "quant/format/granularity.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// Values of a block that share a scale; the i-th stands in row + i * row_step.
struct ScaleGroup {
  std::span<float> values;
  int64_t row = 0, column = 0;  // of the first
  int64_t row_step = 0;         // 0: of one row, 1: of one column
};

// Every group of a block, row by row (tensor and head: every row) or column by column; what the body does to the values
// is done to the block.
void ForEachGroup(const SiteBlock& block, Granularity granularity, const std::function<void(const ScaleGroup&)>& body);

// Of values that share a scale and have this largest magnitude: that, or where the rule clips (+p99.9, +mse).
float DynamicClip(const Rule& rule, std::span<const float> values, float absmax);

// What shares a scale over many blocks: of one sequence, a head and map, or a tensor (no head, no map), which is what
// one rule selects where there are rules.
struct WidePlace {
  int slot = 0;
  SiteKey key;
  const Rule* rule = nullptr;
  friend auto operator<=>(const WidePlace&, const WidePlace&) = default;
};

// The place of a block's scale per tensor, or per head and channel.
WidePlace PlaceOf(const SiteBlock& block, Granularity::Kind kind, const Rule* rule = nullptr);

// Largest magnitudes of a batch's places, one or one per channel. From several threads; the order does not matter.
class SharedMaxima {
 public:
  void Clear() { maxima_.clear(); }
  void Add(const WidePlace& place, const std::vector<float>& maxima);
  // Of a place that was added.
  const std::vector<float>& At(const WidePlace& place) const;

 private:
  mutable std::mutex mutex_;
  std::map<WidePlace, std::vector<float>> maxima_;
};

}  // namespace tare
