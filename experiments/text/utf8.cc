// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/utf8.h"

#include <algorithm>

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "quant/base/message.h"

namespace tare {
namespace {

// str.isspace(): White_Space, and the separators of files, groups, records and units.
bool IsSpace(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE) || (c >= 0x1c && c <= 0x1f);
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

size_t Utf8SequenceLength(std::string_view text) {
  UChar32 c = 0;
  size_t length = 0;
  U8_NEXT(text.data(), length, text.size(), c);
  return c < 0 ? 0 : length;
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  constexpr size_t kStep = 1 << 20;
  for (size_t at = 0; at < text.size();) {
    if (at % kStep < 4) ThrowIfStopped();  // a character has at most 4 bytes
    const size_t length = Utf8SequenceLength(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

void RequireUtf8(std::string_view text, std::string_view where) {
  const std::optional<size_t> at = FindInvalidUtf8(text);
  if (!at) return;
  const auto line = 1 + std::ranges::count(text.substr(0, *at), '\n');
  constexpr size_t kNear = 4096;  // random bytes have 400 of these
  const bool binary = std::ranges::any_of(text.substr(*at, kNear), [](unsigned char c) {
    return c < 0x20 && !std::string_view("\t\n\v\f\r").contains(static_cast<char>(c));
  });
  Fail("{}: got byte 0x{:02x} at offset {} (line {}), which is not valid UTF-8 there; {}", where,
       static_cast<unsigned char>(text[*at]), *at, line,
       binary ? "expected a text, and these bytes are none" : "try converting the text: iconv -f LATIN1 -t UTF-8");
}

size_t CountCharacters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, IsContinuation));
}

char32_t Next(std::string_view text, size_t* at) {
  UChar32 c = 0;
  auto i = static_cast<int64_t>(*at);
  U8_NEXT_UNSAFE(text.data(), i, c);
  *at = static_cast<size_t>(i);
  return static_cast<char32_t>(c);
}

char32_t Previous(std::string_view text, size_t* at) {
  UChar32 c = 0;
  auto i = static_cast<int64_t>(*at);
  U8_PREV_UNSAFE(text.data(), i, c);
  *at = static_cast<size_t>(i);
  return static_cast<char32_t>(c);
}

void Append(char32_t c, std::string* text) {
  char bytes[U8_MAX_LENGTH];
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, static_cast<UChar32>(c));
  text->append(bytes, static_cast<size_t>(length));
}

std::string_view StripRight(std::string_view text) {
  for (size_t at = text.size(); !text.empty() && IsSpace(Previous(text, &at));) text = text.substr(0, at);
  return text;
}

std::string_view Strip(std::string_view text) {
  text = StripRight(text);
  for (size_t at = 0; !text.empty() && IsSpace(Next(text, &at)); at = 0) text.remove_prefix(at);
  return text;
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
}

size_t CountWords(std::string_view text) {
  size_t words = 1;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool space = IsSpace(Next(text, &at));
    words += space && !inside ? 1 : 0;
    inside = space;
  }
  return words;
}

}  // namespace tare
