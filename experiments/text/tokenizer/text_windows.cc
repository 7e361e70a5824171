// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/text_windows.h"

#include <algorithm>

#include "experiments/text/utf8.h"

namespace tare {
namespace {

constexpr size_t kBytesPerToken = 16;  // at most, in most texts; where there are more, more is read
constexpr size_t kNear = 65536;        // bytes in which a line or a word is looked for
constexpr size_t kLongWord = 64;       // tokens; what a piece of text ends in may be cut within a word

// From `at` on, where a character begins: at once in UTF-8, within 4 bytes.
size_t CharacterFrom(std::string_view text, size_t at) {
  for (int i = 0; i < 3 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; ++i) ++at;
  return at;
}

// The first place from `at` on where a line begins that is not empty, or where none does before `end`, a word, or a
// character.
size_t LineFrom(std::string_view text, size_t at, size_t end) {
  const std::string_view near = text.substr(0, std::min({text.size(), end, at + kNear}));
  const size_t line = near.find('\n', at);
  const size_t begin = line == std::string_view::npos ? line : near.find_first_not_of("\r\n", line);
  if (begin != std::string_view::npos) return begin;
  const size_t word = near.find(' ', at);
  return word != std::string_view::npos ? word + 1 : CharacterFrom(text, at);
}

// part: from where the window begins.
std::vector<int32_t> FirstOf(const Tokenizer& tokenizer, std::string_view part, size_t tokens, std::string_view text,
                             std::string_view where) {
  for (size_t bytes = kBytesPerToken * tokens + kNear;; bytes *= 4) {
    const std::string_view piece =
        part.substr(0, bytes < part.size() ? LineFrom(part, bytes, part.size()) : part.size());
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
  const size_t bytes = text.size() / part.windows;
  // A window may go on to where the next one's part has its middle.
  const auto middle = [&](size_t i) {
    return i < part.windows ? CharacterFrom(text, i * bytes + bytes / 2) : text.size();
  };
  for (size_t i = 0; i < part.windows; ++i) {
    const size_t begin = LineFrom(text, middle(i), middle(i) + bytes / 4), end = middle(i + 1);
    std::vector<int32_t> ids = FirstOf(tokenizer, text.substr(begin, end - begin), tokens, text, where);
    if (!ids.empty()) windows.push_back(std::move(ids));
  }
  return windows;
}

}  // namespace tare
