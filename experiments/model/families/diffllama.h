// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' diffllama (modeling_diffllama.py).
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kDiffLlama;

}  // namespace tare
