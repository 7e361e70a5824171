// SPDX-License-Identifier: Apache-2.0
// Keys of a GGUF file that one family has, in the words of its config.json: experts, windows, multipliers. What
// llama.cpp fixes in its code and no key says is added here, too: gemma3's scale of queries, that every sixth of its
// layers sees all keys, and that the shares of a token's experts sum to 1 in qwen3moe.
#pragma once

#include "quant/file/json_value.h"
#include "quant/interchange/gguf/architecture_keys.h"
#include "quant/interchange/gguf/architecture_table.h"

namespace tare::gguf {

// `config` has the keys that all families share.
void AddFamilyKeys(const Architecture& architecture, ArchitectureKeys& keys, Json& config);

}  // namespace tare::gguf
