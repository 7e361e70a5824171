// SPDX-License-Identifier: Apache-2.0
// +outliers<percent>: of n values that share a scale, the ceil(percent / 100 n) at the ends stay as they are, and the
// scale is that of the others. "At the ends" is farthest from 0, and with a zero point, a minimum or a mean farthest
// from the group's median; of equally far ones the first. Source: the dense and sparse parts of KVQuant (Hooper et al.,
// arXiv 2401.18079, section 3.4), whose thresholds are an upper and a lower quantile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/format/format.h"

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

}  // namespace tare
