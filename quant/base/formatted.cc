// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <cstdio>
#include <print>

namespace tare {

std::string FormatArguments(std::string_view format, std::format_args args) { return std::vformat(format, args); }

void PrintArguments(std::string_view format, std::format_args args) { std::vprint_unicode(stdout, format, args); }

void PrintLineArguments(std::string_view format, std::format_args args) {
  PrintArguments(format, args);
  std::println();
}

}  // namespace tare
