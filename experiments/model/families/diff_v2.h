// SPDX-License-Identifier: Apache-2.0
// The second differential attention as its authors wrote it (microsoft/unilm, Diff-Transformer-V2), in a stack of layers
// like llama's.
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kDiffV2;

}  // namespace tare
