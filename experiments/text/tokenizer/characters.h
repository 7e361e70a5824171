// SPDX-License-Identifier: Apache-2.0
// Characters as the steps of a tokenizer.json see them: classes, lower case and normal forms, from ICU, limited to the
// Unicode versions of the tokenizers library (0.23.1), whose tables are of several versions. Its digits and lower case
// are of Unicode 17, ours are ICU's: 41 characters added in 2025 differ. Texts must be valid UTF-8.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tare::pipeline {

bool IsWhitespace(char32_t c);   // White_Space, Rust's char::is_whitespace
bool IsNumeric(char32_t c);      // Nd, Nl, No: Rust's char::is_numeric
bool IsPunctuation(char32_t c);  // ASCII punctuation, or any of the P categories of Unicode 8
bool IsWord(char32_t c);         // \w of Rust's regex crate

// Returns the character at `at` and moves past it.
char32_t Next(std::string_view text, size_t* at);
// Returns the character that ends at `at` and moves before it.
char32_t Previous(std::string_view text, size_t* at);
void Append(char32_t c, std::string* text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::string Normalize(std::string_view text, NormalForm form);
// Character by character, like Rust's char::to_lowercase, without rules for neighbours.
std::string Lowercase(std::string_view text);
// Replaces every maximal invalid part by U+FFFD.
std::string Lossy(std::string_view bytes);
// Visits the extended grapheme clusters in order. Throws Interrupted after RequestStop.
void ForEachCluster(std::string_view text, const std::function<void(std::string_view)>& visit);

// GPT-2's alphabet: each of the 256 bytes as a printable character. Bytes 33-126, 161-172 and 174-255 stand for
// themselves, the others become U+0100 and up, in order (bytes_to_unicode of openai/gpt-2's encoder.py).
std::string ToAlphabet(std::string_view bytes);
// nullopt if a character is not in the alphabet.
std::optional<std::string> FromAlphabet(std::string_view text);

}  // namespace tare::pipeline
