// SPDX-License-Identifier: Apache-2.0
// See float_operands.h.
#include "kernels/attention/float/float_operands.h"

#include <algorithm>

#include "kernels/attention/float/float_stage.h"
#include "kernels/attention/heads.h"
#include "kernels/attention/row_block.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

namespace tare {

FloatOperands::FloatOperands(ProductTypes types) : types_(types) {
  if (types != ProductTypes::kF32 && types != ProductTypes::kBf16)
    Fail("fused attention: got products of integers, expected f32 or bf16");
}

int64_t FloatOperands::KeyBytes(int width) const { return kTile * RowBytes(width); }
int64_t FloatOperands::ValueBytes(int width) const { return kTile * width * Bytes(); }

void FloatOperands::Row(const float* x, int width, std::byte* out) const {
  if (!Converts()) {
    std::copy_n(x, width, reinterpret_cast<float*>(out));
    return;
  }
  auto* to = reinterpret_cast<uint16_t*>(out);
  ToBf16(x, static_cast<size_t>(width), to);
  if (width % 2 != 0) to[width] = 0;
}

void FloatOperands::Keys(const float* keys, int64_t token_stride, int count, int width, std::byte* out) const {
  auto* to = reinterpret_cast<float*>(out);
  alignas(64) float pairs[4][kLargestWidth / 2];  // of bf16, moved as the 32 bits that they are
  for (int key = 0; key < kTile; key += 4) {
    const int here = std::clamp(count - key, 0, 4);
    const float* from = keys + key * token_stride;
    if (!Converts()) {
      TransposeFourKeys(from, token_stride, here, width, to + key);
      continue;
    }
    for (int i = 0; i < here; ++i) Row(from + i * token_stride, width, reinterpret_cast<std::byte*>(pairs[i]));
    TransposeFourKeys(pairs[0], kLargestWidth / 2, here, Depth(width) / 2, to + key);
  }
}

void FloatOperands::Values(const float* values, int64_t token_stride, int count, int width, std::byte* out) const {
  static constexpr float kNone[kLargestWidth] = {};
  for (int i = 0; i < count; ++i) {
    std::byte* to = out + i * width * Bytes();
    const float* row = values + i * token_stride;
    if (!Converts())
      std::copy_n(row, width, reinterpret_cast<float*>(to));
    else if (i % 2 == 0)
      ToBf16Pairs(row, i + 1 < count ? row + token_stride : kNone, static_cast<size_t>(width),
                  reinterpret_cast<uint16_t*>(to));
  }
  const int64_t filled = Converts() ? count + count % 2 : count;
  std::fill(out + filled * width * Bytes(), out + ValueBytes(width), std::byte{0});
}

}  // namespace tare
