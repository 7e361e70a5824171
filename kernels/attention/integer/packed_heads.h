// SPDX-License-Identifier: Apache-2.0
// Packs K and V of all heads into codes, on all threads: the first step of the integer kernels. Layouts in packing.h.
#pragma once

#include "kernels/attention/integer/executed_layout.h"

namespace tare {

// Throws Error naming the place of a NaN or Inf.
void PackHeads(const ExecutedLayout& layout, const PackedHeads& packed);

}  // namespace tare
