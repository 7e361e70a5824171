// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <iterator>

#include "quant/base/standard_output.h"

namespace tare {

std::string FormatArguments(std::string_view format, std::format_args args) { return std::vformat(format, args); }

void PrintArguments(std::string_view format, std::format_args args) { PutText(FormatArguments(format, args)); }

void PrintLineArguments(std::string_view format, std::format_args args) {
  PutText(FormatArguments(format, args) + "\n");
}

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return Formatted("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < std::size(kUnits); ++unit) size /= 1000;
  return Formatted("{:.{}f} {}", size, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, kUnits[unit]);
}

}  // namespace tare
