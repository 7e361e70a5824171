// SPDX-License-Identifier: Apache-2.0
// Which models a GGUF file can hold, so that llama.cpp computes what Tare does: of its architectures, and without what
// llama.cpp fixes in its code or has no key for.
#pragma once

#include <string>

#include "experiments/model/config.h"
#include "quant/interchange/gguf/architecture_table.h"

namespace tare {

// Mistral is a llama there. Throws Error, starting with `where`.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

}  // namespace tare
