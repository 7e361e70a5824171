// SPDX-License-Identifier: Apache-2.0
// Comma-separated values as RFC 4180 has them: names of models and files may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace tare {

// The text as one field: in quotes, its own quotes doubled, where it has a comma, a quote or a line break.
inline std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string(2, c) : std::string(1, c);
  return field + '"';
}

}  // namespace tare
