// SPDX-License-Identifier: Apache-2.0
#include "quant/file/dtype.h"

#include <algorithm>
#include <ranges>

#include "quant/base/message.h"

namespace tare {

static_assert(std::ranges::equal(kDTypes, std::views::iota(size_t{0}, kDTypes.size()), {},
                                 [](const DTypeInfo& info) { return static_cast<size_t>(info.dtype); }));

std::optional<DType> ParseDType(std::string_view name) {
  const auto found = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(count, n, &count)) return std::nullopt;
  }
  return count;
}

std::optional<int64_t> ByteCount(DType dtype, std::span<const int64_t> shape) {
  const std::optional<int64_t> count = ElementCount(shape);
  int64_t bits;
  if (!count || __builtin_mul_overflow(*count, Bits(dtype), &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t n : shape) text += Formatted("{}{}", text.size() > 1 ? ", " : "", n);
  return text + "]";
}

}  // namespace tare
