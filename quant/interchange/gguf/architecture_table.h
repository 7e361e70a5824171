// SPDX-License-Identifier: Apache-2.0
// The architectures of llama.cpp in Hugging Face's terms: one table of families and names of tensors, used to read GGUF
// files (architecture.h) and to write them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tare::gguf {

// Names within a layer: `theirs` in the file, `ours` in the checkpoint. Both stand for NAME.weight and NAME.bias,
// unless `theirs` has a kind itself. With {} in `ours` it is one tensor of all experts in the file, and one of each in
// the checkpoint (architecture.h).
struct NamePair {
  std::string_view theirs, ours;
};

struct Architecture {
  std::string_view name, family, transformers;
  // The key of the file, without the architecture's name, that is more than 0 in this family alone; else empty.
  std::string_view only_with = {};
  std::array<std::span<const NamePair>, 4> names = {};
  bool rotates_neighbours = false;  // rows of q and k are reordered
  bool norms_add_one = false;
  bool needs_head = false;  // output.weight, also of models that use the embedding for it
  bool has_experts = false;
  bool gate_up_in_turns = false;  // of an expert: one matrix in the checkpoint, two in the file
};

// All architectures; of the families of one name, those with a key of their own come first.
std::span<const Architecture> Architectures();
// The architecture of a model_type of config.json; null if there is none.
const Architecture* ArchitectureOfFamily(std::string_view family);
// "llama, qwen2 or qwen3", for messages: the names of architectures, and of families.
std::string ArchitecturesText();
std::string FamiliesText();

// Hugging Face's name of a file's tensor, with {} for an expert's number, and the reverse; empty if the architecture
// has no such tensor.
std::string CheckpointName(const Architecture& architecture, std::string_view name);
std::string FileName(const Architecture& architecture, std::string_view name);

// Where llama's rows of q and k are: row h d + s d/2 + j of head h of width d is row h d + 2 j + s of the file.
int64_t RowOfNeighbours(int64_t row, int64_t width);

}  // namespace tare::gguf
