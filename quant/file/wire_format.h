// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format, as SentencePiece's tokenizer.model has it: fields of (number << 3 | type) as a varint, and a
// varint (0), 8 bytes (1), bytes after their count (2), or 4 bytes (5).
#pragma once

#include <cstdint>
#include <string_view>

namespace tare {

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of the others
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and where the bytes are no fields.
  bool Next(WireField* field) {
    if (rest_.empty() || damaged_) return false;
    const uint64_t tag = Varint();
    *field = WireField();
    field->number = tag >> 3;
    switch (tag & 7) {
      case 0:
        field->value = Varint();
        break;
      case 1:
        field->bytes = Take(8);
        break;
      case 2:
        field->bytes = Take(Varint());
        break;
      case 5:
        field->bytes = Take(4);
        break;
      default:
        damaged_ = true;
    }
    return !damaged_;
  }

  bool damaged() const { return damaged_; }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = Take(1);
      if (damaged_) return 0;
      value |= (static_cast<uint64_t>(byte[0]) & 0x7f) << shift;
      if ((byte[0] & 0x80) == 0) return value;
    }
    damaged_ = true;
    return 0;
  }

  std::string_view Take(uint64_t count) {
    if (count > rest_.size()) {
      damaged_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace tare
