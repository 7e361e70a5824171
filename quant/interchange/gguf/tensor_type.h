// SPDX-License-Identifier: Apache-2.0
// Types of tensors in GGUF files (ggml.h, enum ggml_type): a row is whole blocks of so many values, each of so many
// bytes. blocks.h says what is in a block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tare::gguf {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct TypeInfo {
  TensorType type;
  std::string_view name;
  int64_t values, bytes;  // of a block

  bool IsFloat() const { return values == 1; }
};

// Null if Tare does not read the type.
const TypeInfo* FindType(uint32_t id);
const TypeInfo* FindType(std::string_view name);
// "IQ4_XS (type 23)", also of types that Tare does not read.
std::string TypeText(uint32_t id);
// The types that Tare reads, for messages.
std::string TypesRead();

}  // namespace tare::gguf
