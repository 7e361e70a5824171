// SPDX-License-Identifier: Apache-2.0
// The first differential attention as its authors wrote it (microsoft/unilm, Diff-Transformer), in a stack of layers
// like llama's: their names, neighbouring maps, interleaved rotary positions, and a norm of heads that has a weight.
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kDiffV1;

}  // namespace tare
