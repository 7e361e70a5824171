// SPDX-License-Identifier: Apache-2.0
// Which models a GGUF file can hold: of llama.cpp's architectures, and without what it fixes in its code or has no key
// or tensor for. It then computes what Tare does, but for the window of a phi3 and yarn without truncation in gpt-oss,
// which it ignores in files of its own converter, too: a notice says so.
#pragma once

#include <string>

#include "experiments/model/config/config.h"
#include "quant/interchange/gguf/architecture_table.h"

namespace tare {

// Mistral is a llama there. Throws Error, starting with `where`.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

}  // namespace tare
