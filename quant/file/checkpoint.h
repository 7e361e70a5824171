// SPDX-License-Identifier: Apache-2.0
// The target of a MODEL argument: a checkpoint folder in Hugging Face layout, or a quantized checkpoint in one file.
// Both have tensors by name, some of them perhaps quantized, and a few small files beside them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& path);

  const TensorView* Find(std::string_view name) const;  // null where there is none, or it is quantized
  const QuantizedMatrix* FindQuantized(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr || FindQuantized(name) != nullptr; }
  std::vector<std::string> names() const;  // sorted
  int64_t total_bytes() const;             // of tensors, codes and scales

  // Gives back the memory under a tensor or matrix of this checkpoint; it is read again when touched again.
  void Release(const std::string& name) const;

  // Of a folder what CheckpointFiles says; of a file what `sha256sum FILE` says.
  std::string ContentHash() const;
  const QuantizedCheckpoint* quantized() const { return quantized_ ? &*quantized_ : nullptr; }

 private:
  std::filesystem::path path_;
  std::optional<CheckpointFiles> folder_;
  std::optional<QuantizedCheckpoint> quantized_;
};

// What a tokenizer may consist of beside a checkpoint's weights, as Hugging Face libraries save it: whatever is made of
// a checkpoint holds those that the checkpoint has, so that other programs read its texts the same way.
inline constexpr std::array kTokenizerFiles{
    "tokenizer.model", "tokenizer_config.json",   "tokenizer.json", "special_tokens_map.json",
    "vocab.json",      "added_tokens.json",       "merges.txt",     "chat_template.jinja",
    "vocab.txt",       "sentencepiece.bpe.model", "spiece.model",   "chat_template.json"};

// A small file of a checkpoint: config.json, with what tensor-names.json says in it, or one of the tokenizer's; nullopt
// where it has none. Throws Error where path is neither a folder nor a quantized checkpoint.
std::optional<std::string> CheckpointText(const std::filesystem::path& path, const std::string& name);

}  // namespace tare
