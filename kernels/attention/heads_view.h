// SPDX-License-Identifier: Apache-2.0
// Strided views [token][head][width] of queries, keys, values and outputs, in f32 or in 16 bits. A kernel that takes
// both (of prefill) widens rows of 16 bits where it packs them, a block at a time, and rounds its outputs once, to the
// nearest, ties to even: the bits of the call in f32 on the widened inputs, rounded.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "quant/base/float16.h"

namespace tare {

// [tokens][heads][width], the last dense; strides in values, any sign or overlap that stays inside the caller's memory.
template <typename T>
struct HeadsView {
  T* data = nullptr;
  int64_t tokens = 0;
  int heads = 0;
  int width = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  T* Row(int64_t token, int head) const { return data + Offset(token, head); }
  int64_t Offset(int64_t token, int head) const { return token * token_stride + head * head_stride; }
};

// Dense memory laid out [tokens][heads][width], as a projection leaves it.
template <typename T>
HeadsView<T> DenseHeads(T* data, int64_t tokens, int heads, int width) {
  return {data, tokens, heads, width, int64_t{heads} * width, width};
}

enum class HalfType { kBf16, kF16 };  // quant/base/float16.h

// f32 in `data`; or 16-bit floats in `halves`, and no data.
template <typename T>  // float or const float
struct FloatHeads : HeadsView<T> {
  using Half = std::conditional_t<std::is_const_v<T>, const uint16_t, uint16_t>;

  FloatHeads() = default;
  FloatHeads(const HeadsView<T>& x) : HeadsView<T>(x) {}
  FloatHeads(T* data, int64_t tokens, int heads, int width, int64_t token_stride, int64_t head_stride)
      : HeadsView<T>{data, tokens, heads, width, token_stride, head_stride} {}
  FloatHeads(const HeadsView<Half>& x, HalfType a_type)
      : HeadsView<T>{nullptr, x.tokens, x.heads, x.width, x.token_stride, x.head_stride},
        halves(x.data),
        type(a_type) {}

  float At(int64_t token, int head, int i) const {
    if (halves == nullptr) return this->Row(token, head)[i];
    const uint16_t half = halves[this->Offset(token, head) + i];
    return type == HalfType::kBf16 ? FloatFromBf16(half) : FloatFromF16(half);
  }

  Half* halves = nullptr;
  HalfType type = HalfType::kBf16;
};

inline FloatHeads<const float> ReadOnly(const FloatHeads<float>& x) {
  FloatHeads<const float> read(
      HeadsView<const float>{x.data, x.tokens, x.heads, x.width, x.token_stride, x.head_stride});
  read.halves = x.halves, read.type = x.type;
  return read;
}

// Rows first .. first + count - 1 of a head, those that there are, in f32: x itself, or a view, by the same numbers, of
// memory [count][width] with them widened, whose other rows must not be read.
HeadsView<const float> Widened(const FloatHeads<const float>& x, int head, int64_t first, int64_t count, float* memory);
// Writes n values to a row of `out` from column `first` on.
void StoreRow(const FloatHeads<float>& out, int64_t token, int head, int64_t first, const float* values, int64_t n);

inline constexpr int kMostHeads = 1 << 16;  // of a view; and 2^40 values: a broadcast view takes no memory
// What is wrong with a view, "got a null pointer for 3 tokens"; empty: nothing.
std::string WrongIn(const FloatHeads<const float>& x);

}  // namespace tare
