// SPDX-License-Identifier: Apache-2.0
// A model's configuration as keys of a GGUF file: the reverse of quant/interchange/gguf/architecture.h. A file can hold
// models of llama.cpp's architectures, without what llama.cpp fixes in its code or has no key or tensor for. It then
// computes what Tare does, but for the window of a phi3 and yarn without truncation in gpt-oss, which it ignores in
// files of its own converter, too: a notice says so.
#pragma once

#include <string>

#include "experiments/model/config/config.h"
#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/metadata_writer.h"

namespace tare {

// Mistral is a llama there. Throws Error, starting with `where`, for a model that a file cannot hold.
const gguf::Architecture& GgufArchitectureOf(const ModelConfig& config, const std::string& where);

// Of a model that GgufArchitectureOf lets pass.
void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

}  // namespace tare
