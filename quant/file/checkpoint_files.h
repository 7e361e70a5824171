// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder's weights, mapped: model.safetensors, or the shards that model.safetensors.index.json names,
//
//   {"metadata": {...}, "weight_map": {"TENSOR": "model-00001-of-00002.safetensors", ...}}
//
// The map and the shards must agree: every tensor is in the shard that the map names. A tensor-names.json names
// tensors; without it, those saved from a model's base class, which lack "model.", get it; lm_head has none.
//
// tensor-names.json maps the tensors to the names of one of Tare's families and adds what config.json lacks, so that a
// checkpoint with other names needs no new build (docs/reference/tensor-names.md).
//
//   {"names": {"model.layers.{}.self_attn.q_proj.weight": "blocks.{}.attn.wq.weight", ...},    ours: theirs
//    "ignore": ["blocks.{}.attn.mask", "opt.*"],    theirs, not read; * at the end: any that begin so, or none
//    "config": {"model_type": "diff_v1", "head_pairing": "halves", ...}}                       over config.json's
//
// {} is a layer's number. Tensors that are not mapped keep their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/file/quantized_checkpoint.h"
#include "quant/file/safetensors.h"
#include "quant/file/sha256.h"

namespace tare {

class TensorNamesFile {
 public:
  static constexpr const char* kName = "tensor-names.json";

  // Empty if the folder has none. Throws Error if it is damaged or has another key than these three.
  static std::optional<TensorNamesFile> In(const std::filesystem::path& folder);

  // Our name for each stored name; empty if it is ignored. Throws Error, with the nearest names, if a name in the file
  // matches no tensor, and if two names become one or one becomes two.
  std::map<std::string, std::string> OursOf(const std::vector<std::string>& stored) const;
  // config.json's text with this file's "config" merged in.
  std::string ConfigText(const std::optional<std::string>& text, const std::string& where) const;

 private:
  using Entries = std::vector<std::pair<std::string, std::string>>;  // ours, theirs; ours empty: ignored

  std::string where_, config_;  // config_: a JSON object
  Entries entries_;
};

// By its name a file of PyTorch's own format, which nothing here reads.
bool HasPickleName(const std::filesystem::path& path);

class CheckpointFiles {
 public:
  explicit CheckpointFiles(const std::filesystem::path& folder);

  const TensorView* Find(std::string_view name) const;               // null if missing
  std::vector<std::string> names() const;                            // sorted
  int64_t total_bytes() const;                                       // of the tensors
  const std::set<std::string>& missing() const { return missing_; }  // shards that the folder lacks
  const std::vector<Safetensors>& files() const { return files_; }   // by name

  // Gives back the memory under a tensor; touching it reads it again.
  void Release(const TensorView& tensor) const;

  // As `sha256sum FILES | sha256sum` prints it, run in the folder on the weight files in order of their names, then on
  // tensor-names.json. Several threads call `read`, with a file's parts; one where its tensors are mapped.
  std::string ContentHash(const FileRead& read = {}) const;

 private:
  std::set<std::string> missing_;
  std::vector<Safetensors> files_;
  std::string names_hash_;                                         // of tensor-names.json
  void Rename(const std::map<std::string, std::string>& ours_of);  // empty: left out
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// What a Checkpoint (quant/checkpoint/checkpoint.h) reads: a folder or file. A name is found in one of three ways.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual const TensorView* Find(std::string_view name) const = 0;
  virtual const QuantizedMatrix* FindQuantized(std::string_view) const { return nullptr; }
  virtual const ForeignMatrix* FindForeign(std::string_view) const { return nullptr; }
  virtual void Release(const std::string& name) const = 0;
  virtual std::string ContentHash() const = 0;
  virtual const QuantizedCheckpoint* quantized() const { return nullptr; }
  virtual std::vector<std::string> notes() const { return {}; }
  virtual std::set<std::string> missing() const { return {}; }  // shards
};

}  // namespace tare
