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

#include "experiments/text/tokenizer/text_windows.h"

namespace tare {

struct EncodedText {
  std::vector<std::vector<int32_t>> rows;  // ids without `<s>`: a row of each window, or one of all or the first
  std::optional<int32_t> bos;              // the tokenizer's `<s>`, unless its config adds none
  int32_t vocabulary = 0;                  // of the tokenizer
  bool in_windows = false;                 // whether the rows are windows of a long text
};

// sha256: of the text. Throws Error as Tokenizer::Load and Encode do; where: of the text, for what is not UTF-8.
EncodedText EncodeText(std::string_view text, const std::string& sha256, const std::filesystem::path& model_folder,
                       const TextPart& part, std::string_view where);

}  // namespace tare
