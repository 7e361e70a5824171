// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' mistral (modeling_mistral.py).
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kMistral;

}  // namespace tare
