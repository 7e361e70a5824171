// SPDX-License-Identifier: Apache-2.0
// See float_operands.h.
#include "kernels/attention/float/float_operands.h"

#include <algorithm>

#include "kernels/attention/float/float_stage.h"
#include "kernels/attention/heads.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"

namespace tare {
namespace {

void Bf16Row(const float* x, int width, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  ToBf16(x, static_cast<size_t>(width), to);
  if (width % 2 != 0) to[width] = 0;
}

}  // namespace

FloatOperands::FloatOperands(ProductTypes types) : types_(types) {
  if (types != ProductTypes::kF32 && types != ProductTypes::kBf16)
    Fail("fused attention: got products of integers, expected f32 or bf16");
}

void FloatOperands::Row(const float* x, float scale, int width, std::byte* out) const {
  if (!Converts()) return ScaleInto(x, scale, static_cast<size_t>(width), reinterpret_cast<float*>(out));
  alignas(64) float scaled[kLargestWidth];
  ScaleInto(x, scale, static_cast<size_t>(width), scaled);
  Bf16Row(scaled, width, out);
}

void FloatOperands::Keys(const TileRows& keys, int width, std::byte* out) const {
  auto* to = reinterpret_cast<float*>(out);
  alignas(64) float pairs[4][kLargestWidth / 2];  // of bf16, moved as the 32 bits that they are
  for (int key = 0; key < kTile; key += 4) {
    std::array<const float*, 4> four;
    std::copy_n(keys.data() + key, 4, four.data());
    if (!Converts()) {
      TransposeFourKeys(four.data(), width, to + key);
      continue;
    }
    for (int i = 0; i < 4; ++i) {
      if (four[i] == nullptr) continue;
      Bf16Row(four[i], width, pairs[i]);
      four[i] = pairs[i];
    }
    TransposeFourKeys(four.data(), Depth(width) / 2, to + key);
  }
}

void FloatOperands::Values(const TileRows& values, int width, std::byte* out) const {
  static constexpr float kZeros[kLargestWidth] = {};
  const auto bf16 = [&](int i) { return values[i] == nullptr ? kZeros : values[i]; };
  for (int i = 0; i < kTile; ++i) {
    std::byte* to = out + i * width * Bytes();
    if (!Converts() && values[i] == nullptr)
      std::fill_n(reinterpret_cast<float*>(to), width, 0.0f);
    else if (!Converts())
      std::copy_n(values[i], width, reinterpret_cast<float*>(to));
    else if (i % 2 == 0)
      ToBf16Pairs(bf16(i), bf16(i + 1), static_cast<size_t>(width), reinterpret_cast<uint16_t*>(to));
  }
}

}  // namespace tare
