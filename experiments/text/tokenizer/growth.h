// SPDX-License-Identifier: Apache-2.0
// Limits how far the steps of a tokenizer.json may stretch a text. There may be any number of steps, and each may
// replace every character by a long text, so without a limit a small file could exhaust memory. Files in use at most
// triple a text; NFKC's longest expansion is eleven times (U+FDFA).
#pragma once

#include <cstddef>
#include <string_view>

#include "quant/base/error.h"

namespace tare::pipeline {

constexpr size_t kLargestGrowth = 16, kGrowthBytes = 64 << 10;

// Throws Error, naming `step`, if `after` exceeds both 16 times `before` and 64 KiB.
inline void RequireGrowth(size_t before, size_t after, std::string_view step) {
  const size_t most = before * kLargestGrowth + kGrowthBytes;
  if (after > most)
    Fail("{}: got {} bytes from a text of {}, expected at most {}; is the file damaged?", step, after, before, most);
}

}  // namespace tare::pipeline
