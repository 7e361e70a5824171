// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: each of the 256 bytes as a printable character. Bytes 33-126, 161-172 and 174-255 stand for
// themselves, the others become U+0100 and up, in order (bytes_to_unicode of openai/gpt-2's encoder.py).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tare::pipeline {

std::string ToAlphabet(std::string_view bytes);
// nullopt if a character is not in the alphabet.
std::optional<std::string> FromAlphabet(std::string_view text);

}  // namespace tare::pipeline
