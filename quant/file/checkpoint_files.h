// SPDX-License-Identifier: Apache-2.0
// The weights of a checkpoint folder in Hugging Face layout, mapped: model.safetensors, or the shards that
// model.safetensors.index.json names,
//
//   {"metadata": {...}, "weight_map": {"TENSOR": "model-00001-of-00002.safetensors", ...}}
//
// where the map and the shards must agree: every tensor is in exactly the shard that the map names, and in no other.
// Tensors have the names that tensor-names.json gives them, where there is one (quant/file/tensor_names.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/safetensors.h"

namespace tare {

class CheckpointFiles {
 public:
  explicit CheckpointFiles(const std::filesystem::path& folder);

  const TensorView* Find(std::string_view name) const;              // null where there is none
  std::vector<std::string> names() const;                           // sorted
  int64_t total_bytes() const;                                      // of the tensors
  const std::vector<Safetensors>& files() const { return files_; }  // by name

  // Gives back the memory under a tensor of this checkpoint; it is read again when touched again.
  void Release(const TensorView& tensor) const;

  // What `sha256sum FILES | sha256sum` says of the weight files in the order of their names, in their folder.
  std::string ContentHash() const;

 private:
  std::vector<Safetensors> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

}  // namespace tare
