// SPDX-License-Identifier: Apache-2.0
// Text in std::format's syntax. The conversion of values to text is compiled once, in formatted.cc; compiled in every
// source, it would be half of the generated code (200 KB and 2 s for a source of 300 lines). And where text goes: to
// standard output at once, for a run whose output goes nowhere does not go on for hours; notices to the user, which do
// not stop the run, are sent by a library and shown where the program decides.
#pragma once

#include <charconv>
#include <cstdint>
#include <format>
#include <optional>
#include <string>
#include <string_view>

namespace tare {

// Names, tokens and texts may hold what a terminal obeys. Control characters, except tabs and ends of lines, become
// \u001b and the like, which JSON reads as the same text.
std::string Printable(std::string_view text);

// To standard output, printable. Throws Error where it cannot be written.
void PutText(std::string_view text);
// To standard error, printable.
void PutError(std::string_view text);

std::string FormatArguments(std::string_view format, std::format_args args);

template <typename... Args>
std::string Formatted(std::format_string<Args...> format, Args&&... args) {
  return FormatArguments(format.get(), std::make_format_args(args...));
}

// Like std::print and std::println; throw as PutText does.
template <typename... Args>
void PrintText(std::format_string<Args...> format, Args&&... args) {
  PutText(FormatArguments(format.get(), std::make_format_args(args...)));
}
template <typename... Args>
void PrintLine(std::format_string<Args...> format, Args&&... args) {
  PutText(FormatArguments(format.get(), std::make_format_args(args...)) + "\n");
}

// Sizes for people, in powers of 1000 and three digits: "412 bytes", "7.41 MB", "12.3 GB".
std::string SizeText(int64_t bytes);

// Shows each text once after the last call of OnNotice, which says where; nothing before the first.
void Notice(const std::string& text);
void OnNotice(void (*show)(const std::string& text));

// A number that is the whole text: "12", "-3", "0.5", "1e-3"; no blank, no plus sign. Empty if the text is none, or one
// that T cannot hold.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tare
