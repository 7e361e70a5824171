// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629), and what Python calls a character and whitespace: what scoring multiple choice needs of it. The
// first three functions take any bytes, the others valid UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tare {

// Bytes of the valid sequence that the text, which is not empty, begins with; 0 where there is none.
size_t Utf8SequenceLength(std::string_view text);
// Byte offset of the first sequence that is not valid: a stray or missing continuation byte, an overlong form, a
// surrogate, or a value above U+10FFFF.
std::optional<size_t> FindInvalidUtf8(std::string_view text);
// Throws Error with the byte offset and the line where the text is not valid. `where` begins the message.
void RequireUtf8(std::string_view text, std::string_view where);

// Code points: len() in Python.
size_t CountCharacters(std::string_view text);

char32_t FirstCharacter(std::string_view text);  // of a text that is not empty
void AppendCharacter(char32_t value, std::string* text);

// str.rstrip() and str.strip() in Python: the 29 characters for which str.isspace() is true.
std::string_view StripRight(std::string_view text);
std::string_view Strip(std::string_view text);

}  // namespace tare
