// SPDX-License-Identifier: Apache-2.0
// Text in std::format's syntax. The conversion of values to text is compiled once, in formatted.cc; compiled in every
// source, it would be half of the generated code (200 KB and 2 s for a source of 300 lines).
#pragma once

#include <cstdint>
#include <format>
#include <string>
#include <string_view>

namespace tare {

std::string FormatArguments(std::string_view format, std::format_args args);
void PrintArguments(std::string_view format, std::format_args args);
void PrintLineArguments(std::string_view format, std::format_args args);

template <typename... Args>
std::string Formatted(std::format_string<Args...> format, Args&&... args) {
  return FormatArguments(format.get(), std::make_format_args(args...));
}

// To standard output, like std::print and std::println; throw std::system_error if writing fails.
template <typename... Args>
void PrintText(std::format_string<Args...> format, Args&&... args) {
  PrintArguments(format.get(), std::make_format_args(args...));
}
template <typename... Args>
void PrintLine(std::format_string<Args...> format, Args&&... args) {
  PrintLineArguments(format.get(), std::make_format_args(args...));
}

// Sizes for people, in powers of 1000 and three digits: "412 bytes", "7.41 MB", "12.3 GB".
std::string SizeText(int64_t bytes);

}  // namespace tare
