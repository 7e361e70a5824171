// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' olmo2 (modeling_olmo2.py).
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kOlmo2;

}  // namespace tare
