// SPDX-License-Identifier: Apache-2.0
// The ids that a checkpoint's tokenizer makes of a text. One command often needs those of the same text several times,
// for each task and model of a comparison: the last ones are kept, by the contents of the text and of the tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

struct EncodedText {
  std::vector<int32_t> ids;    // without `<s>`
  std::optional<int32_t> bos;  // the tokenizer's `<s>`, unless its config adds none
  int32_t vocabulary = 0;      // of the tokenizer
};

// first: so many of the text's first ids are enough. sha256: of the text. Throws Error as Tokenizer::Load and Encode
// do.
EncodedText EncodeText(std::string_view text, const std::string& sha256, const std::filesystem::path& model_folder,
                       size_t first);

}  // namespace tare
