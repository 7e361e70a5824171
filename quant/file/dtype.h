// SPDX-License-Identifier: Apache-2.0
// Types of tensors in files: all that safetensors names; HDF5 files use the integers, F32 and F64. Values are
// little-endian. Values narrower than a byte are packed, and a tensor of them must fill whole bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quant/base/float16.h"
#include "quant/base/message.h"

namespace tare {

// A row has a type's name in code, as safetensors headers spell it, and the bits of one value.
#define TARE_DTYPES(ROW)             \
  ROW(kBool, "BOOL", 8)              \
  ROW(kF4, "F4", 4)                  \
  ROW(kF6E2M3, "F6_E2M3", 6)         \
  ROW(kF6E3M2, "F6_E3M2", 6)         \
  ROW(kU8, "U8", 8)                  \
  ROW(kI8, "I8", 8)                  \
  ROW(kF8E5M2, "F8_E5M2", 8)         \
  ROW(kF8E4M3, "F8_E4M3", 8)         \
  ROW(kF8E5M2Fnuz, "F8_E5M2FNUZ", 8) \
  ROW(kF8E4M3Fnuz, "F8_E4M3FNUZ", 8) \
  ROW(kF8E8M0, "F8_E8M0", 8)         \
  ROW(kI16, "I16", 16)               \
  ROW(kU16, "U16", 16)               \
  ROW(kF16, "F16", 16)               \
  ROW(kBF16, "BF16", 16)             \
  ROW(kI32, "I32", 32)               \
  ROW(kU32, "U32", 32)               \
  ROW(kF32, "F32", 32)               \
  ROW(kC64, "C64", 64)               \
  ROW(kF64, "F64", 64)               \
  ROW(kI64, "I64", 64)               \
  ROW(kU64, "U64", 64)

enum class DType {
#define TARE_ENUMERATOR(dtype, ...) dtype,
  TARE_DTYPES(TARE_ENUMERATOR)
#undef TARE_ENUMERATOR
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int bits;
};

inline constexpr auto kDTypes = std::to_array<DTypeInfo>({
#define TARE_INFO(dtype, name, bits) {DType::dtype, name, bits},
    TARE_DTYPES(TARE_INFO)
#undef TARE_INFO
});

constexpr std::string_view Name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }
constexpr int Bits(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bits; }
constexpr bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
inline std::optional<DType> ParseDType(std::string_view name) {
  const auto found = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

// The number at a place of a file, which need not be aligned.
template <typename T>
T Load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A value of F32, F16 or BF16.
inline float FloatAt(DType dtype, const std::byte* at) {
  if (dtype == DType::kF32) return Load<float>(at);
  const auto bits = Load<uint16_t>(at);
  return dtype == DType::kBF16 ? FloatFromBf16(bits) : FloatFromF16(bits);
}

// Product of the dimensions (1 for none); nullopt if one is negative or the product overflows int64.
inline std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(count, n, &count)) return std::nullopt;
  }
  return count;
}
// Bytes of a tensor; nullopt if ElementCount has none, the bits overflow int64, or they do not fill whole bytes.
inline std::optional<int64_t> ByteCount(DType dtype, std::span<const int64_t> shape) {
  const std::optional<int64_t> count = ElementCount(shape);
  int64_t bits;
  if (!count || __builtin_mul_overflow(*count, Bits(dtype), &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// Rows of the last axis, counted over all others.
struct RowRange {
  int64_t first = 0, count = 0;

  std::span<const std::byte> Of(std::span<const std::byte> array, DType dtype, std::span<const int64_t> shape) const {
    const auto row = static_cast<size_t>(shape.back() * Bits(dtype) / 8);
    return array.subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
  }
};

// "[2, 37]", as messages spell a shape; of more than 16 dimensions, which files may claim, how many there are.
inline std::string ShapeText(std::span<const int64_t> shape) {
  constexpr size_t kShown = 16;
  const std::string all = shape.size() > kShown ? Formatted(", .. ({} dimensions)", shape.size()) : "";
  const auto shown = shape.first(std::min(shape.size(), kShown));
  return "[" + Listed(shown, ", ", [](int64_t n) { return Formatted("{}", n); }) + all + "]";
}

}  // namespace tare
