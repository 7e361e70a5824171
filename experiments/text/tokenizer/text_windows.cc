// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/text_windows.h"

#include <algorithm>
#include <optional>

#include "experiments/text/utf8.h"

namespace tare {
namespace {

constexpr size_t kBytesPerToken = 16;  // at most, in most texts; where there are more, more is read
constexpr size_t kNear = 65536;        // bytes in which a line or a word is looked for
constexpr size_t kLongWord = 64;       // tokens; what a piece of text ends in may be cut within a word

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// The first place from `at` on where a line begins that is not empty, or a word, or a character.
size_t LineFrom(std::string_view text, size_t at) {
  const std::string_view near = text.substr(0, std::min(text.size(), at + kNear));
  const size_t line = near.find('\n', at);
  if (line != std::string_view::npos) {
    const size_t begin = near.find_first_not_of("\r\n", line);
    return begin == std::string_view::npos ? near.size() : begin;
  }
  const size_t word = near.find(' ', at);
  if (word != std::string_view::npos) return word + 1;
  while (at < text.size() && Continues(text[at])) ++at;
  return at;
}

// part: from where the window begins.
std::vector<int32_t> FirstOf(const Tokenizer& tokenizer, std::string_view part, size_t tokens, std::string_view text,
                             std::string_view where) {
  for (size_t bytes = kBytesPerToken * tokens + kNear;; bytes *= 4) {
    const std::string_view piece = part.substr(0, bytes < part.size() ? LineFrom(part, bytes) : part.size());
    if (FindInvalidUtf8(piece)) RequireUtf8(text, where);  // which says where in the text
    std::vector<int32_t> ids = tokenizer.EncodeFirst(piece, tokens + kLongWord);
    if (piece.size() < part.size() && ids.size() < tokens + kLongWord) continue;
    ids.resize(std::min(ids.size(), tokens));
    return ids;
  }
}

}  // namespace

bool ReadInWindows(const TextPart& part, size_t bytes) {
  if (part.windows == 0 || bytes < kLongText) return false;
  return bytes / part.windows / (2 * kBytesPerToken) >= part.positions;
}

std::vector<std::vector<int32_t>> EncodeWindows(const Tokenizer& tokenizer, std::string_view text, const TextPart& part,
                                                std::string_view where) {
  const size_t tokens = std::max<size_t>(1, part.positions - (tokenizer.bos() ? 1 : 0));
  std::vector<std::vector<int32_t>> windows;
  for (size_t i = 0; i < part.windows; ++i) {
    const size_t end = text.size() / part.windows * (i + 1);
    const size_t begin = LineFrom(text, end - text.size() / part.windows / 2);
    if (begin >= end) continue;
    std::vector<int32_t> ids = FirstOf(tokenizer, text.substr(begin, end - begin), tokens, text, where);
    if (!ids.empty()) windows.push_back(std::move(ids));
  }
  return windows;
}

}  // namespace tare
