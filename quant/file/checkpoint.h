// SPDX-License-Identifier: Apache-2.0
// The target of a MODEL argument: a checkpoint folder in Hugging Face layout, or a quantized checkpoint in one file.
// Both have tensors by name, some of them perhaps quantized, and a few small files beside them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& path);

  const TensorView* Find(std::string_view name) const;  // null if missing or quantized
  const QuantizedMatrix* FindQuantized(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr || FindQuantized(name) != nullptr; }
  std::vector<std::string> names() const;  // sorted
  int64_t total_bytes() const;             // of tensors, codes and scales

  // Shows rows of a tensor as tensors of their own, one after another, instead of it. Throws Error unless they are all
  // of its rows. Nothing happens if there is no such tensor.
  struct Rows {
    std::string name;
    int64_t count = 0;
  };
  void Split(const std::string& name, const std::vector<Rows>& parts);

  // Gives back the memory under a tensor or matrix; touching it reads it again.
  void Release(const std::string& name) const;

  // For a folder that of CheckpointFiles, for a file that of `sha256sum FILE`.
  std::string ContentHash() const;
  // Of config.json as CheckpointText has it.
  std::string ConfigHash() const;
  const QuantizedCheckpoint* quantized() const { return quantized_ ? &*quantized_ : nullptr; }

 private:
  std::filesystem::path path_;
  std::optional<CheckpointFiles> folder_;
  std::optional<QuantizedCheckpoint> quantized_;
  std::map<std::string, TensorView> parts_;  // of tensors that were split
  std::set<std::string> split_;              // those tensors' names
};

// Files of a tokenizer as Hugging Face libraries save them. Whatever is made from a checkpoint keeps those that it has,
// so that other programs read texts the same way.
inline constexpr std::array kTokenizerFiles{
    "tokenizer.model", "tokenizer_config.json",   "tokenizer.json", "special_tokens_map.json",
    "vocab.json",      "added_tokens.json",       "merges.txt",     "chat_template.jinja",
    "vocab.txt",       "sentencepiece.bpe.model", "spiece.model",   "chat_template.json"};

// Files besides the weights that affect how a checkpoint folder and its texts are read, each with its SHA-256, where it
// exists. None for a quantized checkpoint, whose own hash covers them.
inline constexpr std::array kModelFiles{"config.json", "tensor-names.json", "tokenizer.json", "tokenizer.model",
                                        "tokenizer_config.json"};
std::map<std::string, std::string> ModelFileHashes(const std::filesystem::path& path);

// A small file of a checkpoint: config.json (with the entries of tensor-names.json), or a file of the tokenizer;
// nullopt if there is none. Throws Error if path is neither a folder nor a quantized checkpoint.
std::optional<std::string> CheckpointText(const std::filesystem::path& path, const std::string& name);

}  // namespace tare
