// SPDX-License-Identifier: Apache-2.0
// safetensors files for tests from their parts: any header, valid or not, and any number of data bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tare {

inline std::string SafetensorsBytes(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i * 7 + 1);
  return file;
}

inline std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace tare
