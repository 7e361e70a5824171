// SPDX-License-Identifier: Apache-2.0
// The error of attention's output when small entries, or blocks of keys with only small entries, are skipped, as by a
// sparse kernel or by a cache that drops keys. A skipped entry counts as 0; nothing is renormalised.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/attention/heads.h"
#include "quant/observe/row_measures.h"
#include "quant/observe/site_visitor.h"

namespace tare {

// V of one output head: one slice, or two side by side; rows are keys.
struct ValueSlices {
  std::array<const float*, 2> slices{};
  int width = 0;  // of a slice; rows are stored one after another

  int Count() const { return slices[1] == nullptr ? 1 : 2; }
};

// ||sum of skipped terms|| / ||sum of all||, Euclidean, for each of kSparsityShares; 0 if the output is 0.
struct SkippedOutput {
  std::array<double, kSparsityShares.size()> entries{}, blocks{};
};

// The row must be finite; sums over keys are in f32. Empty if the output is not finite: V has NaN or infinities, or the
// sum overflows.
std::optional<SkippedOutput> MeasureSkipped(std::span<const float> row, const ValueSlices& v);

// Copies of V of the current layer, as the pass shows it before the layer's attention.
class ValueStore {
 public:
  ValueStore() = default;
  explicit ValueStore(std::vector<std::vector<OutputHead>> heads) : heads_(std::move(heads)) {}

  // Whether the output of this site's maps follows from V: for the difference, and for maps without a difference.
  bool Serves(Site site, std::optional<int> layer) const;
  void Keep(const SiteBlock& v);
  // For a block of such a site; nullopt if its V was not shown.
  std::optional<ValueSlices> Find(const SiteBlock& map) const;

 private:
  struct Values {
    int width = 0;
    std::vector<float> rows;
  };

  std::vector<std::vector<OutputHead>> heads_;  // per layer
  mutable std::mutex mutex_;
  std::optional<int> layer_;
  std::map<std::pair<int64_t, int>, Values> values_;  // by sequence and head
};

}  // namespace tare
