// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file, read token by token: unexpected content is refused where it is
// found, so that neither its depth nor its amount costs memory. The entries are not yet checked against
// anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/dtype.h"

namespace tare {

struct SafetensorsHeader {
  struct Entry {
    std::optional<DType> dtype;
    std::optional<std::vector<int64_t>> shape;         // not negative
    std::optional<std::vector<int64_t>> data_offsets;  // two, not negative
  };
  std::map<std::string, Entry> entries;  // by name, each with all three
  std::map<std::string, std::string> metadata;
};

// Throws Error where text is not such a header. `where` begins the messages.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, const std::string& where);

}  // namespace tare
