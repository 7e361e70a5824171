// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers' gemma3_text (modeling_gemma3.py): the text models, not those with a vision tower.
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kGemma3;

}  // namespace tare
