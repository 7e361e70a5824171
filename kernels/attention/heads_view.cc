// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/heads_view.h"

#include <algorithm>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {

HeadsView<const float> Widened(const FloatHeads<const float>& x, int head, int64_t first, int64_t count,
                               float* memory) {
  if (x.halves == nullptr) return x;
  for (int64_t row = 0; row < std::min(count, x.tokens - first); ++row) {
    const uint16_t* const from = x.halves + x.Offset(first + row, head);
    float* const to = memory + row * x.width;
    if (x.type == HalfType::kBf16)
      std::transform(from, from + x.width, to, FloatFromBf16);
    else
      std::transform(from, from + x.width, to, FloatFromF16);
  }
  return {memory - first * x.width, x.tokens, x.heads, x.width, x.width, 0};
}

void StoreRow(const FloatHeads<float>& out, int64_t token, int head, int64_t first, const float* values, int64_t n) {
  const int64_t at = out.Offset(token, head) + first;
  if (out.halves == nullptr)
    std::copy_n(values, n, out.data + at);
  else if (out.type == HalfType::kBf16)
    ToBf16(values, static_cast<size_t>(n), out.halves + at);
  else
    std::transform(values, values + n, out.halves + at, F16FromFloat);
}

std::string WrongIn(const FloatHeads<const float>& x) {
  constexpr int64_t kMostValues = int64_t{1} << 40;
  if (x.tokens < 0 || x.heads < 1 || x.width < 1)
    return Formatted("got {} tokens, {} heads, width {}; expected at least 0, 1, 1", x.tokens, x.heads, x.width);
  if (x.heads > kMostHeads || x.tokens > kMostValues / x.heads / x.width)
    return Formatted("got {} tokens of {} heads of width {}, expected at most {} heads and 2^40 values", x.tokens,
                     x.heads, x.width, kMostHeads);
  if (x.data == nullptr && x.halves == nullptr && x.tokens > 0)
    return Formatted("got a null pointer for {} tokens", x.tokens);
  return "";
}

}  // namespace tare
