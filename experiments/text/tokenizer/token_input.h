// SPDX-License-Identifier: Apache-2.0
// The input of a language model: a text, cut by the checkpoint's tokenizer, or ids made by any tokenizer.
//
// Ids: the tensor or dataset `input_ids` [B,T] or [T], of any integer type, in a .safetensors, .h5 or .hdf5 file, whose
// other contents are ignored. Rows are independent sequences and are used unchanged, without tokens in front. Text: any
// other file; UTF-8, one long row; bos is the token that begins every window.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/text/tokenizer/text_windows.h"

namespace tare {

struct TokenInput {
  enum class Kind { kText, kIds };
  Kind kind = Kind::kText;
  std::vector<std::vector<int32_t>> sequences;  // each id in [0, vocabulary), at least one
  std::optional<int32_t> bos;                   // text only: the tokenizer's `<s>`, unless its config adds none
  bool whole = true;                            // whether these are all tokens of the file
  bool in_windows = false;                      // of a long text: each sequence is a window of it (text_windows.h)
  std::filesystem::path path;
  std::string sha256;  // of the file
};

// Whether the file is one of ids, by its name.
bool HoldsIds(const std::filesystem::path& path);

// model_folder: the folder with the text's tokenizer. vocabulary: the model's. part: of a text. Throws Error for an
// empty input, a text that is not UTF-8, an id outside the vocabulary (with its place), and a missing tokenizer.
TokenInput LoadTokenInput(const std::filesystem::path& path, const std::filesystem::path& model_folder, int vocabulary,
                          const TextPart& part = {});
// Texts that the file at `path` holds, each a row. Throws Error for a text that is nothing but spaces, and as above for
// the tokenizer.
TokenInput EncodeTexts(std::span<const std::string> texts, const std::filesystem::path& path,
                       const std::filesystem::path& model_folder, int vocabulary);

}  // namespace tare
