// SPDX-License-Identifier: Apache-2.0
// The architectures of llama.cpp in Hugging Face's terms: one table of families and names of tensors, used to read GGUF
// files (architecture.h) and to write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tare::gguf {

enum class FeedForwardNorm { kNone, kAfterAttention, kBeforeFeedForward };

struct Architecture {
  std::string_view name, family, transformers;
  bool rotates_neighbours = false;  // rows of q and k are reordered
  bool norms_add_one = false;
  bool has_qk_norms = false;
  FeedForwardNorm feed_forward_norm = FeedForwardNorm::kAfterAttention;  // what ffn_norm is
};

// Null if Tare does not know it.
const Architecture* FindArchitecture(std::string_view name);
// By model_type of config.json.
const Architecture* ArchitectureOfFamily(std::string_view family);
// "llama, qwen2 or qwen3", for messages; and of families.
std::string ArchitecturesText();
std::string FamiliesText();

// Hugging Face's name of a file's tensor, and the reverse; empty if the architecture has no such tensor.
std::string CheckpointName(const Architecture& architecture, std::string_view name);
std::string FileName(const Architecture& architecture, std::string_view name);

// Where llama's rows of q and k are: row h d + s d/2 + j of head h of width d is row h d + 2 j + s of the file.
int64_t RowOfNeighbours(int64_t row, int64_t width);

}  // namespace tare::gguf
