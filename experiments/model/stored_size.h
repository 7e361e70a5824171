// SPDX-License-Identifier: Apache-2.0
// How large a checkpoint is: its values, and the bytes that hold them with their scales, over all tensors.
#pragma once

#include <cstdint>

#include "quant/checkpoint/checkpoint.h"

namespace tare {

struct StoredSize {
  uint64_t values = 0, bytes = 0;

  double BitsPerWeight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
};

StoredSize StoredSizeOf(const Checkpoint& checkpoint);

}  // namespace tare
