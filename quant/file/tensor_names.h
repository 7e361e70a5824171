// SPDX-License-Identifier: Apache-2.0
// tensor-names.json beside a checkpoint maps its tensors to the names of one of Tare's families and adds what
// config.json lacks, so that a checkpoint with other names needs no new build (docs/reference/tensor-names.md).
//
//   {"names": {"model.layers.{}.self_attn.q_proj.weight": "blocks.{}.attn.wq.weight", ...},    ours: theirs
//    "ignore": ["blocks.{}.attn.mask"],                                                        theirs, not read
//    "config": {"model_type": "diff_v1", "head_pairing": "halves", ...}}                       over config.json's
//
// {} is a layer's number. Tensors that are not mapped keep their names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace tare
