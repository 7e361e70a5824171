// SPDX-License-Identifier: Apache-2.0
// What the files next to a tokenizer add to it, as transformers 5.12 reads them (tokenization_utils_base.py):
//
//   tokenizer_config.json    added_tokens_decoder, named tokens (bos_token, ...), extra_special_tokens, add_bos_token
//   special_tokens_map.json  named tokens, which replace those above  } read only without an added_tokens_decoder
//   added_tokens.json        text to id                               }
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tare::pipeline {

struct FolderTokens {
  // Entries as in a tokenizer.json's added_tokens: those with an id, by id; then special ones without.
  std::vector<nlohmann::json> added;
  std::map<std::string, nlohmann::json> named;  // "bos_token": its entry, or null
  std::optional<bool> adds_bos, adds_eos;
  bool legacy = false;        // SentencePiece: text after an added token begins with a space, too
  bool as_llama_cpp = false;  // also where it begins with one; and the longest of added tokens that overlap counts
  bool prefix_space = true;   // false: no text gets the model's space in front

  // The text of a named token; nullopt where it is null or missing.
  std::optional<std::string> Named(const std::string& name) const;
};

// Throws Error for files that are damaged.
FolderTokens ReadFolderTokens(const std::filesystem::path& checkpoint);

// The added tokens of a tokenizer, `own`, with those of its folder: one whose text is in `own` takes the folder's
// flags, a piece keeps its id, and others get the ids after all pieces, in order. Throws Error, with `where`, for a
// token whose file gives it another id.
nlohmann::json WithFolderTokens(nlohmann::json own, const FolderTokens& folder, int32_t pieces,
                                const std::function<std::string(int32_t)>& piece, const std::string& where);

}  // namespace tare::pipeline
