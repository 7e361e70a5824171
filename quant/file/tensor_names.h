// SPDX-License-Identifier: Apache-2.0
// tensor-names.json beside a checkpoint: its tensors under the names that a family of Tare has, and what config.json
// does not say, so that a checkpoint of unknown names is read without a new build (quant/file/tensor-names.md).
//
//   {"names": {"model.layers.{}.self_attn.q_proj.weight": "blocks.{}.attn.wq.weight", ...},    ours: theirs
//    "ignore": ["blocks.{}.attn.mask"],                                                        theirs, not read
//    "config": {"model_type": "diff_v1", "head_pairing": "halves", ...}}                       over config.json's
//
// {} is a layer's number. Tensors that nothing maps keep their names.
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

  // Nothing where the folder has none. Throws Error where it is damaged, or a key is none of the three.
  static std::optional<TensorNamesFile> In(const std::filesystem::path& folder);

  // Ours of each stored name; the empty name where it is ignored. Throws Error where a name of the file is of no
  // tensor, with the nearest that are, and where two names become one or one becomes two.
  std::map<std::string, std::string> OursOf(const std::vector<std::string>& stored) const;
  // config.json's text with what this file says in it.
  std::string ConfigText(const std::optional<std::string>& text, const std::string& where) const;

 private:
  using Entries = std::vector<std::pair<std::string, std::string>>;  // ours, theirs; ours empty: ignored

  std::string where_, config_;  // config_: a JSON object
  Entries entries_;
};

}  // namespace tare
