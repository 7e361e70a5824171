// SPDX-License-Identifier: Apache-2.0
// The input of a language model: a text, cut by the checkpoint's tokenizer, or ids made by any tokenizer.
//
// Ids: the tensor or dataset `input_ids` [B,T] or [T], of any integer type, in a .safetensors, .h5 or .hdf5 file, whose
// other contents are ignored. Rows are independent sequences and are used unchanged, without tokens in front. Text: any
// other file; UTF-8, one long row; bos is the token that begins every window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

// What of a text is needed: windows of a long text at even distances become ids without the rest.
struct TextPart {
  size_t first = SIZE_MAX;  // so many of the text's first tokens are enough
  // Or so many windows at even distances, of so many positions each, `<s>` among them, if the text is long; 0: all.
  size_t windows = 0, positions = 0;
};

inline constexpr size_t kLongText = size_t{16} << 20;  // bytes; encoding them takes a second or a few

// Whether the part of a text of so many bytes is read in windows: it is long, and they are a small share of it.
bool ReadInWindows(const TextPart& part, size_t bytes);

// The text's bytes are cut into as many equal parts as there are windows. A window begins with the first line behind
// the middle of its part (or where none begins in the next quarter of a part or 64 KiB, the first word), and has the
// first ids that the tokenizer gives what follows, up to the middle of the next part. None where only spaces are.
// Throws Error, with `where`, if what is read is not UTF-8.
std::vector<std::vector<int32_t>> EncodeWindows(const Tokenizer& tokenizer, std::string_view text, const TextPart& part,
                                                std::string_view where);

// Throws Error unless the model has a row for each id. A tokenizer may have more pieces (gemma-3-1b), which few texts
// have.
void RequireRows(std::span<const int32_t> ids, int vocabulary, const std::string& where);

struct TokenInput {
  enum class Kind { kText, kIds };
  Kind kind = Kind::kText;
  std::vector<std::vector<int32_t>> sequences;  // each id in [0, vocabulary), at least one
  std::optional<int32_t> bos;                   // text only: the tokenizer's `<s>`, unless its config adds none
  bool whole = true;                            // whether these are all tokens of the file
  bool in_windows = false;                      // of a long text: each sequence is a window of it (EncodeWindows)
  std::filesystem::path path;
  std::string sha256;  // of the file
};

// Whether the file is one of ids, by its name.
bool HoldsIds(const std::filesystem::path& path);

// model_folder: the folder with the text's tokenizer. vocabulary: the model's. part: of a text. Throws Error for an
// empty input, a text that is not UTF-8, an id outside the vocabulary (with its place), and a missing tokenizer.
TokenInput LoadTokenInput(const std::filesystem::path& path, const std::filesystem::path& model_folder, int vocabulary,
                          const TextPart& part = {});

}  // namespace tare
