// SPDX-License-Identifier: Apache-2.0
// Enumerates groups of values that share a scale, and outliers, for simulated plans and measured formats.
//
//   row, token           one row of a block
//   group<N>, block<N>   N neighbouring values of a row
//   tokens<N>            N rows of a block; .by8 and .by4x2: every eighth of them, or every fourth pair
//   channel              one column of a block (for q, k, v and head_out: all tokens of a sequence)
//   block<N>.channel     N rows of a column, counted from the block's first row
//   tensor, head, heads  rows of many blocks: their largest magnitudes must be gathered first (SharedMaxima)
//
// +outliers<percent>: of n values that share a scale, ceil(percent / 100 n) at the ends stay, and the scale is the
// others'. "At the ends": farthest from 0, or with a zero point, minimum or mean from the group's median; of equals the
// first. Source: KVQuant (Hooper et al., arXiv 2401.18079, section 3.4), by an upper and a lower quantile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "quant/format/format.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

// How many of n values are set apart, at least one.
int64_t OutliersOf(int64_t n, double percent);

class SetApart {
 public:
  // values: finite, at least one.
  SetApart(std::span<const float> values, Format format, double percent);

  // The others, in their order; none of a group of one value.
  std::span<const float> others() const { return others_; }
  // Puts the outliers back.
  void Restore(std::span<float> values) const;

 private:
  std::vector<size_t> places_;
  std::vector<float> outliers_, others_;
};

// Which of the scales of tokens<N> is token i's. Of 8 neighbouring tokens, 8 / scales neighbours share one.
inline int64_t ScaleOfToken(Granularity::Kind kind, int64_t i) { return i % 8 * ScalesOfTokens(kind) / 8; }

// Values of a block that share a scale; the i-th is in row + i * row_step.
struct ScaleGroup {
  std::span<float> values;
  int64_t row = 0, column = 0;  // of the first value
  int64_t row_step = 0;         // 0: along one row, or rows one after another; 1: down one column
};

// Every group of a block, by row (for tensor, head and heads: every row) or column. body works on the block's values.
void ForEachGroup(const SiteBlock& block, Granularity granularity, const std::function<void(const ScaleGroup&)>& body);

// What ScaleFor takes for values that share a scale and have this largest magnitude: absmax, unless the rule clips
// (+p99.9, +mse) or the format's scale is of their mean square. Codes with an offset have ends of their own: absmax.
float DynamicClip(const Rule& rule, std::span<const float> values, float absmax);

// The place of a scale over many blocks of one sequence: a head and map, or a tensor (no head, no map), limited to what
// one rule selects; or the places of the scales of tokens that follow one another, from a row of the batch on.
struct WidePlace {
  int slot = 0;
  SiteKey key;
  const Rule* rule = nullptr;
  int64_t batch_row = 0;
  friend auto operator<=>(const WidePlace&, const WidePlace&) = default;
};

// The place of a block's scale per tensor, of its rows' scales over heads, or of those per head and channel.
WidePlace PlaceOf(const SiteBlock& block, Granularity::Kind kind, const Rule* rule = nullptr);

// Largest magnitudes of a batch's places, one each, or per channel or token. Thread-safe; order does not matter.
class SharedMaxima {
 public:
  void Clear() { maxima_.clear(); }
  void Add(const WidePlace& place, const std::vector<float>& maxima);
  // For a place that was added.
  const std::vector<float>& At(const WidePlace& place) const;

 private:
  mutable std::mutex mutex_;
  std::map<WidePlace, std::vector<float>> maxima_;
};

}  // namespace tare
