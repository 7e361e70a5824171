// SPDX-License-Identifier: Apache-2.0
// Which tokens of a text are needed, and windows of a long text at even distances, which become ids without the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

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

}  // namespace tare
