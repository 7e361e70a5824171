// SPDX-License-Identifier: Apache-2.0
// A model's configuration as the keys of a GGUF file, by the names that llama.cpp's loader of the architecture reads.
// The reverse is quant/interchange/gguf/architecture.cc.
//
// What llama.cpp computes otherwise whatever a key says is refused by name: differential attention, gates, windows but
// gemma3's, other rotary layouts, other scales of attention logits.
#pragma once

#include <string>

#include "experiments/model/config.h"
#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/metadata_writer.h"

namespace tare {

// Mistral is a llama there. Throws Error, starting with `where`.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

}  // namespace tare
