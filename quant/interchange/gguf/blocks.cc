// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/blocks.h"

#include <cstring>

#include "quant/base/error.h"
#include "quant/base/float16.h"

namespace tare::gguf {
namespace {

using Bytes = const uint8_t*;

constexpr int kHalf = 16, kBlock = 32, kSuper = 256;
constexpr std::array<int8_t, 16> kIq4Nl{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

float F16At(Bytes b) { return FloatFromF16(static_cast<uint16_t>(b[0] | b[1] << 8)); }

void F32(Bytes b, float* y) { std::memcpy(y, b, sizeof(float)); }
void F16(Bytes b, float* y) { *y = F16At(b); }
void BF16(Bytes b, float* y) { *y = FloatFromBf16(static_cast<uint16_t>(b[0] | b[1] << 8)); }

void Q8_0(Bytes b, float* y) {
  const float d = F16At(b);
  for (int i = 0; i < kBlock; ++i) y[i] = static_cast<float>(static_cast<int8_t>(b[2 + i])) * d;
}

// value(q) of the low and the high halves of 16 bytes.
template <typename Value>
void Halves(Bytes q, float* y, Value value) {
  for (int i = 0; i < kHalf; ++i) {
    y[i] = value(q[i] & 15);
    y[i + kHalf] = value(q[i] >> 4);
  }
}

void Q4_0(Bytes b, float* y) {
  Halves(b + 2, y, [d = F16At(b)](int q) { return d * static_cast<float>(q - 8); });
}

void Q4_1(Bytes b, float* y) {
  Halves(b + 4, y, [d = F16At(b), m = F16At(b + 2)](int q) { return d * static_cast<float>(q) + m; });
}

void Iq4Nl(Bytes b, float* y) {
  Halves(b + 2, y, [d = F16At(b)](int q) { return d * static_cast<float>(kIq4Nl[static_cast<size_t>(q)]); });
}

void Mxfp4(Bytes b, float* y) {
  Halves(b + 1, y,
         [d = HalfOfE8M0(b[0])](int q) { return d * static_cast<float>(kTwiceE2M1[static_cast<size_t>(q)]); });
}

// The same with a fifth bit: value i has bit i of `fifth`.
template <typename Value>
void FiveBits(Bytes fifth, float* y, Value value) {
  uint32_t high;
  std::memcpy(&high, fifth, 4);
  const Bytes low = fifth + 4;
  for (int i = 0; i < kHalf; ++i) {
    y[i] = value((low[i] & 15) | static_cast<int>((high >> i & 1) << 4));
    y[i + kHalf] = value(low[i] >> 4 | static_cast<int>((high >> (i + kHalf) & 1) << 4));
  }
}

void Q5_0(Bytes b, float* y) {
  FiveBits(b + 2, y, [d = F16At(b)](int q) { return d * static_cast<float>(q - 16); });
}

void Q5_1(Bytes b, float* y) {
  FiveBits(b + 4, y, [d = F16At(b), m = F16At(b + 2)](int q) { return d * static_cast<float>(q) + m; });
}

// Sixteen neighbouring codes: the same bits of each byte.
struct Codes {
  Bytes bytes;
  int shift, mask;
  int operator[](int i) const { return bytes[i] >> shift & mask; }
};

constexpr int kGroup = 16;  // values; kSuper has 16 groups

// Group g of two-bit codes: 32 bytes hold four times 32 values, the first in the lowest bits.
Codes TwoBits(Bytes q, int g) { return {q + g / 8 * 32 + g % 2 * kGroup, g % 8 / 2 * 2, 3}; }

void Q2_K(Bytes b, float* y) {
  const Bytes scales = b, codes = b + 16;
  const float d = F16At(b + 80), dmin = F16At(b + 82);
  for (int g = 0; g < kSuper / kGroup; ++g) {
    const float scale = d * static_cast<float>(scales[g] & 15), least = dmin * static_cast<float>(scales[g] >> 4);
    const Codes q = TwoBits(codes, g);
    for (int i = 0; i < kGroup; ++i) y[kGroup * g + i] = scale * static_cast<float>(q[i]) - least;
  }
}

// Group g: four low bits in a half of byte g % 8, two high bits in byte 8 + g % 4.
int ScaleOfQ3(Bytes s, int g) {
  const int low = s[g % 8] >> (g / 8 * 4) & 15, high = s[8 + g % 4] >> (g / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// The third bit is stored inverted: where it is 0, 4 is subtracted. Values i, i + 32, ... have those of byte i.
void Q3_K(Bytes b, float* y) {
  const Bytes codes = b + 32, scales = b + 96;
  const float d = F16At(b + 108);
  for (int g = 0; g < kSuper / kGroup; ++g) {
    const float scale = d * static_cast<float>(ScaleOfQ3(scales, g));
    const Codes q = TwoBits(codes, g), third{b + g % 2 * kGroup, g / 2, 1};
    for (int i = 0; i < kGroup; ++i) y[kGroup * g + i] = scale * static_cast<float>(q[i] + 4 * third[i] - 4);
  }
}

struct ScaleAndLeast {
  int scale, least;
};
// Six bits each, in 12 bytes: groups 0 to 3 in the low bits of bytes 0 to 3 and 4 to 7; groups 4 to 7 have four bits in
// a half of bytes 8 to 11 and two in the high bits of the former.
ScaleAndLeast ScalesOfQ4(Bytes s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | s[g - 4] >> 6 << 4, s[g + 4] >> 4 | s[g] >> 6 << 4};
}

// code(g, i): of value i of group g of 32.
template <typename Code>
void FourOrFive(Bytes b, float* y, Code code) {
  const float d = F16At(b), dmin = F16At(b + 2);
  for (int g = 0; g < kSuper / kBlock; ++g) {
    const auto [s, m] = ScalesOfQ4(b + 4, g);
    const float scale = d * static_cast<float>(s), least = dmin * static_cast<float>(m);
    for (int i = 0; i < kBlock; ++i) y[kBlock * g + i] = scale * static_cast<float>(code(g, i)) - least;
  }
}

// 32 bytes hold two groups.
void Q4_K(Bytes b, float* y) {
  FourOrFive(b, y, [codes = b + 16](int g, int i) { return codes[g / 2 * 32 + i] >> (g % 2 * 4) & 15; });
}

// Group g has bit g of the bytes of fifth bits.
void Q5_K(Bytes b, float* y) {
  FourOrFive(b, y, [fifth = b + 16, codes = b + 48](int g, int i) {
    return (codes[g / 2 * 32 + i] >> (g % 2 * 4) & 15) | (fifth[i] >> g & 1) << 4;
  });
}

// 64 bytes of low bits hold 128 values: the first 64 in their low halves; their two high bits are laid out as TwoBits.
void Q6_K(Bytes b, float* y) {
  const Bytes low = b, high = b + 128, scales = b + 192;
  const float d = F16At(b + 208);
  for (int g = 0; g < kSuper / kGroup; ++g) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[g]));
    const Codes four{low + g / 8 * 64 + g % 4 * kGroup, g % 8 / 4 * 4, 15}, two = TwoBits(high, g);
    for (int i = 0; i < kGroup; ++i) y[kGroup * g + i] = scale * static_cast<float>((four[i] | two[i] << 4) - 32);
  }
}

auto Dequantizer(TensorType type) -> void (*)(Bytes, float*) {
  switch (type) {
    case TensorType::kQ8_0:
      return Q8_0;
    case TensorType::kQ4_0:
      return Q4_0;
    case TensorType::kQ4_1:
      return Q4_1;
    case TensorType::kQ5_0:
      return Q5_0;
    case TensorType::kQ5_1:
      return Q5_1;
    case TensorType::kQ2_K:
      return Q2_K;
    case TensorType::kQ3_K:
      return Q3_K;
    case TensorType::kQ4_K:
      return Q4_K;
    case TensorType::kQ5_K:
      return Q5_K;
    case TensorType::kQ6_K:
      return Q6_K;
    case TensorType::kIQ4_NL:
      return Iq4Nl;
    case TensorType::kMXFP4:
      return Mxfp4;
    case TensorType::kF32:
      return F32;
    case TensorType::kF16:
      return F16;
    case TensorType::kBF16:
      return BF16;
  }
  TARE_CHECK(false);
}

}  // namespace

void DequantizeBlocks(TensorType type, const std::byte* data, int64_t blocks, float* y) {
  const TypeInfo& info = *FindType(static_cast<uint32_t>(type));
  const auto dequantize = Dequantizer(type);
  for (int64_t i = 0; i < blocks; ++i) dequantize(reinterpret_cast<Bytes>(data) + i * info.bytes, y + i * info.values);
}

}  // namespace tare::gguf
