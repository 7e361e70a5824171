// SPDX-License-Identifier: Apache-2.0
// The target of a MODEL argument: a folder in Hugging Face layout, Tare's quantized file, or what another tool
// quantized. All have tensors by name, perhaps quantized, and a few small files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"

namespace tare {

// kPresent: of a folder that was downloaded in part, for the first layers alone.
enum class Shards : uint8_t { kAll, kPresent };

class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& path, Shards shards = Shards::kAll);

  const TensorView* Find(std::string_view name) const;  // null if missing or quantized
  const QuantizedMatrix* FindQuantized(std::string_view name) const { return source_->FindQuantized(name); }
  // A matrix as another tool stores it, or null.
  const ForeignMatrix* FindForeign(std::string_view name) const;
  bool Has(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted
  int64_t total_bytes() const;             // of tensors, codes and scales
  SchemesInUse schemes() const;            // of other tools' matrices
  // Decisions about these matrices, and advice to the user, a sentence each.
  std::vector<std::string> notes() const { return source_->notes(); }
  std::set<std::string> missing() const { return source_->missing(); }  // shards that the index names

  // Shows rows of a tensor, or of another tool's matrix, as tensors of their own instead of it. Throws Error unless
  // they are all of its rows, or of all matrices of a tensor [count, out, in]. No such tensor: nothing happens.
  struct Rows {
    std::string name;
    int64_t count = 0;
  };
  void Split(const std::string& name, const std::vector<Rows>& parts);
  // As Split, of columns of a tensor [rows, columns], which are copied.
  void SplitColumns(const std::string& name, int64_t rows, const std::vector<Rows>& parts);

  // Shows a tensor [experts, in, out], or a foreign matrix [experts out, in], as a matrix [out, in] per expert; and
  // [experts, out] as vectors. A name for each. Throws Error for other shapes. No such tensor: nothing happens.
  struct Experts {
    std::vector<std::string> names;
    int64_t out = 0, in = 0;
  };
  void SplitMatrices(const std::string& stored, const Experts& experts);
  void SplitVectors(const std::string& stored, const Experts& experts);

  // Gives back the memory under a tensor or matrix; touching it reads it again.
  void Release(const std::string& name) const;

  // The hash of a folder as CheckpointFiles gives it, of a file as `sha256sum FILE` prints it.
  std::string ContentHash() const { return source_->ContentHash(); }
  // The hash of config.json as CheckpointText gives it.
  std::string ConfigHash() const;
  // Tare's own quantized file, or null.
  const QuantizedCheckpoint* quantized() const { return source_->quantized(); }

 private:
  std::filesystem::path path_;
  std::unique_ptr<const CheckpointSource> source_;
  struct Part {
    TensorView view;
    std::string whole;
    std::vector<std::byte> copy = {};  // of columns
  };
  void RefuseBoth(const std::string& stored, const std::string& name) const;
  static Part PartOf(const TensorView& whole, int64_t first, const Rows& rows);
  std::map<std::string, Part> parts_;  // of tensors that were split
  std::set<std::string> split_;        // the names of these tensors, and of the matrices
  std::map<std::string, std::unique_ptr<const ForeignMatrix>> matrices_;  // rows and experts of those that were split
};

// The snapshot in a hub's cache folder (models--ORG--NAME): refs/main's, or the only one. Other paths and folders stay.
std::filesystem::path HubSnapshot(const std::filesystem::path& path);

// A tokenizer's files as Hugging Face libraries save them; whatever is made of a checkpoint keeps those, to read alike.
inline constexpr std::array kTokenizerFiles{
    "tokenizer.model", "tokenizer_config.json",   "tokenizer.json", "special_tokens_map.json",
    "vocab.json",      "added_tokens.json",       "merges.txt",     "chat_template.jinja",
    "vocab.txt",       "sentencepiece.bpe.model", "spiece.model",   "chat_template.json"};

// Files besides the weights that affect how a checkpoint folder and its texts are read, each with its SHA-256, where it
// exists. None for a quantized checkpoint, whose own hash covers them.
inline constexpr std::array kModelFiles{"config.json",     "tensor-names.json",     "tokenizer.json",
                                        "tokenizer.model", "tokenizer_config.json", "chat_template.jinja"};
std::map<std::string, std::string> ModelFileHashes(const std::filesystem::path& path);

// A small file of a checkpoint: config.json (with the entries of tensor-names.json), or a file of the tokenizer;
// nullopt if there is none. Throws Error if path is neither a folder nor a quantized checkpoint.
std::optional<std::string> CheckpointText(const std::filesystem::path& path, const std::string& name);
// config.json of the model alone: without the quantization_config that Checkpoint has read or refused.
std::optional<std::string> ModelConfigText(const std::filesystem::path& path);

}  // namespace tare
