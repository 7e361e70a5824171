// SPDX-License-Identifier: Apache-2.0
// Signed integers of every width with every other range of codes, and without one.
#pragma once

#include <vector>

#include "quant/format/format.h"

namespace tare {

inline constexpr Format::Base kSignedIntegers[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kInt3,
                                                   Format::kInt2};

inline std::vector<Format> RangedIntegers() {
  std::vector<Format> formats;
  for (const CodeRange range : {CodeRange::kFull, CodeRange::kZero, CodeRange::kMin}) {
    for (const Format::Base base : kSignedIntegers) formats.push_back(WithRange(base, range));
  }
  return formats;
}

}  // namespace tare
