// SPDX-License-Identifier: Apache-2.0
// How far the steps of a tokenizer.json may stretch a text. Steps form a list of any length, and each may replace every
// character with a long text: without a bound, a small file could need more memory than exists. Files in use at most
// triple a text; NFKC's longest is eleven times (U+FDFA).
#pragma once

#include <cstddef>
#include <string_view>

#include "quant/base/error.h"

namespace tare::pipeline {

constexpr size_t kLargestGrowth = 16, kGrowthBytes = 64 << 10;

// Throws Error where `after` bytes are more than 16 times the bytes before and 64 KiB. `step` is named.
inline void RequireGrowth(size_t before, size_t after, std::string_view step) {
  const size_t most = before * kLargestGrowth + kGrowthBytes;
  if (after > most)
    Fail("{}: got {} bytes from a text of {}, expected at most {}; is the file damaged?", step, after, before, most);
}

}  // namespace tare::pipeline
