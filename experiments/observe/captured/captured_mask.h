// SPDX-License-Identifier: Apache-2.0
// Which keys a query of a captured attention map sees (captured_layout.h, "mask"). The visible keys must be contiguous:
// a mask with holes is refused.
#pragma once

#include <optional>
#include <span>

#include "experiments/observe/captured/captured_input.h"

namespace tare {

class CapturedMask {
 public:
  // Throws Error for a mask that captured_layout.h does not define.
  CapturedMask(const CapturedFile& file, const CapturedArray& map, const ArrayValues& values, const std::string& mask);

  // The visible keys among [tokens.begin, tokens.end); row: all keys of the query. Empty if the query sees none.
  PositionRange Visible(int64_t sequence, int64_t query, std::span<const float> row, PositionRange tokens) const;

 private:
  enum class Kind { kNone, kCausal, kLowest, kArray };
  bool Sees(int64_t sequence, int64_t query, int64_t key, float value) const;

  std::string where_;
  Kind kind_ = Kind::kNone;
  float lowest_ = 0.0f;  // values up to it are masked
  int64_t later_ = 0;    // number of keys before the first query
  std::optional<ArrayValues> array_;
  int64_t array_sequence_ = 0, columns_ = 0;  // strides
};

}  // namespace tare
