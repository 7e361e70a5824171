// SPDX-License-Identifier: Apache-2.0
// UTF-8 (RFC 3629), and Python's definitions of character and whitespace, as scoring multiple choice needs them. The
// first three functions take any bytes, the others valid UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tare {

// Bytes of the valid sequence at the start of the text, which must not be empty; 0 if it is invalid.
size_t Utf8SequenceLength(std::string_view text);
// Byte offset of the first invalid sequence: a stray or missing continuation byte, an overlong form, a surrogate, or a
// value above U+10FFFF. Throws Interrupted after RequestStop, as RequireUtf8 does.
std::optional<size_t> FindInvalidUtf8(std::string_view text);
// Throws Error, with byte offset and line, if the text is not valid. `where` starts the message.
void RequireUtf8(std::string_view text, std::string_view where);

// Code points: len() in Python.
size_t CountCharacters(std::string_view text);

// Returns the character at `at` and moves past it.
char32_t Next(std::string_view text, size_t* at);
// Returns the character that ends at `at` and moves before it.
char32_t Previous(std::string_view text, size_t* at);
void Append(char32_t c, std::string* text);

// Python's str.rstrip() and str.strip(), for the 29 characters with str.isspace().
std::string_view StripRight(std::string_view text);
std::string_view Strip(std::string_view text);
// Python's str.replace(): from left to right, without looking at what was put in.
std::string Replaced(std::string_view text, std::string_view from, std::string_view to);
// len(re.split(r"\s+", text)) in Python: the runs of whitespace and one.
size_t CountWords(std::string_view text);

}  // namespace tare
