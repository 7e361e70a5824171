// SPDX-License-Identifier: Apache-2.0
// A model's configuration as keys of a GGUF file: the reverse of quant/interchange/gguf/architecture.h.
#pragma once

#include "experiments/model/config/config.h"
#include "quant/interchange/gguf/architecture_table.h"
#include "quant/interchange/gguf/metadata_writer.h"

namespace tare {

// Of a model that limits.h lets pass.
void AddModelKeys(const ModelConfig& config, const gguf::Architecture& architecture, gguf::MetadataWriter& out);

}  // namespace tare
