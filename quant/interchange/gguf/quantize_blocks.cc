// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/blocks.h"

#include <algorithm>

#include "quant/base/message.h"
#include "quant/format/pack.h"

namespace tare::gguf {
namespace {

constexpr int kHalfBlock = 16, kBlockValues = 32;

bool PutF32(const float* x, uint8_t* b) {
  std::memcpy(b, x, sizeof(float));
  return true;
}

bool PutF16Of(const float* x, uint8_t* b) { return PutHalf(*x, b); }

bool PutBF16Of(const float* x, uint8_t* b) {
  const uint16_t bits = Bf16FromFloat(*x);
  std::memcpy(b, &bits, sizeof bits);
  return std::isfinite(FloatFromBf16(bits));
}

struct Range {
  float least, most;
};
// The ends, found in eight lanes, of which compilers make vectors. Of zeros of both signs, the first counts.
Range RangeOf(const float* __restrict x) {
  constexpr int kLanes = 8;
  std::array<float, kLanes> least, most;
  for (int lane = 0; lane < kLanes; ++lane) least[lane] = most[lane] = x[lane];
  for (int i = kLanes; i < kBlockValues; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      least[lane] = x[i + lane] < least[lane] ? x[i + lane] : least[lane];
      most[lane] = x[i + lane] > most[lane] ? x[i + lane] : most[lane];
    }
  }
  const auto first = [x](float end) { return end == 0 ? *std::find(x, x + kBlockValues - 1, 0.0f) : end; };
  return {first(*std::ranges::min_element(least)), first(*std::ranges::max_element(most))};
}

// The value of the largest magnitude, the first of several; 0 if all are zeros.
float Extreme(const float* x) {
  const auto [least, most] = RangeOf(x);
  if (least == 0 && most == 0) return 0;
  if (-least != most) return -least > most ? least : most;
  return *std::find_if(x, x + kBlockValues - 1, [&](float value) { return std::fabs(value) == most; });
}

// code(i) of 0 to 15: value i in the low half of byte i, value i + 16 in its high half.
template <typename Code>
void PutHalves(uint8_t* __restrict q, Code code) {
  for (int i = 0; i < kHalfBlock; ++i) q[i] = static_cast<uint8_t>((code(i) & 15) | (code(i + kHalfBlock) & 15) << 4);
}

// PutHalves, after the fifth bits of all, if there are any: bit i of 32 for value i.
template <int kBits, typename Code>
void PutBits(uint8_t* b, Code code) {
  if constexpr (kBits == 5) {
    uint32_t high = 0;
    for (int i = 0; i < kBlockValues; ++i) high |= static_cast<uint32_t>(code(i) >> 4) << i;
    std::memcpy(b, &high, sizeof high);
    b += sizeof high;
  }
  PutHalves(b, code);
}

// The code of a positive x, by truncation. The minimum is in f32, for which the oldest vectors have an instruction.
int Code(float x, float most) { return static_cast<int>(x < most ? x : most); }

// Rounds as std::round, halves away from zero, without its call, for |x| < 2^23, where the difference is exact.
int Rounded(float x) {
  const float magnitude = std::fabs(x);
  const int whole = static_cast<int>(magnitude);
  const int rounded = whole + (magnitude - static_cast<float>(whole) >= 0.5f ? 1 : 0);
  return x < 0 ? -rounded : rounded;
}

bool PutQ8_0(const float* __restrict x, uint8_t* __restrict b) {
  const float d = std::fabs(Extreme(x)) / 127.0f, inverse = InverseOrZero(d);
  for (int i = 0; i < kBlockValues; ++i) b[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(Rounded(x[i] * inverse)));
  return PutHalf(d, b);
}

// Q4_0 and Q5_0.
template <int kBits>
bool PutAboutZero(const float* x, uint8_t* b) {
  constexpr float kMiddle = 1 << (kBits - 1);
  const float d = Extreme(x) / -kMiddle, inverse = InverseOrZero(d);
  PutBits<kBits>(b + 2, [&](int i) { return Code(x[i] * inverse + (kMiddle + 0.5f), 2 * kMiddle - 1); });
  return PutHalf(d, b);
}

// Q4_1 and Q5_1.
template <int kBits>
bool PutAboveLeast(const float* x, uint8_t* b) {
  constexpr float kLargest = (1 << kBits) - 1;
  const auto [least, most] = RangeOf(x);
  const float d = (most - least) / kLargest, inverse = InverseOrZero(d);
  PutBits<kBits>(b + 4, [&](int i) { return Code((x[i] - least) * inverse + 0.5f, kLargest); });
  return PutHalf(d, b) && PutHalf(least, b + 2);
}

// log2 in f32, as there: it may round up to the next power.
bool PutMxfp4(const float* x, uint8_t* b) {
  const float most = std::fabs(Extreme(x));
  b[0] = most > 0.0f ? static_cast<uint8_t>(std::max(std::floor(std::log2(most)) + 125.0f, 0.0f)) : 0;
  const float d = HalfOfE8M0(b[0]);
  // The nearest magnitude, of two the smaller: of all 16 codes in turn, as there, the first of the nearest.
  float size[kBlockValues], distance[kBlockValues];
  int32_t code[kBlockValues] = {};
  for (int i = 0; i < kBlockValues; ++i) distance[i] = size[i] = std::fabs(x[i]);
  for (int32_t c = 1; c < 8; ++c) {
    const float value = static_cast<float>(kTwiceE2M1[c]) * d;
    for (int i = 0; i < kBlockValues; ++i) {
      const float to = std::fabs(value - size[i]);
      code[i] = to < distance[i] ? c : code[i];
      distance[i] = to < distance[i] ? to : distance[i];
    }
  }
  for (int i = 0; i < kBlockValues; ++i) code[i] |= x[i] < 0 && code[i] > 0 ? 8 : 0;
  PutHalves(b + 1, [&](int i) { return code[i]; });
  return true;
}

struct Written {
  TensorType type;
  bool (*quantize)(const float* x, uint8_t* b);
};
constexpr Written kWritten[]{
    {TensorType::kF32, PutF32},           {TensorType::kF16, PutF16Of},          {TensorType::kBF16, PutBF16Of},
    {TensorType::kQ8_0, PutQ8_0},         {TensorType::kQ4_0, PutAboutZero<4>},  {TensorType::kQ4_1, PutAboveLeast<4>},
    {TensorType::kQ5_0, PutAboutZero<5>}, {TensorType::kQ5_1, PutAboveLeast<5>}, {TensorType::kMXFP4, PutMxfp4},
    {TensorType::kQ4_K, PutQ4_K},         {TensorType::kQ5_K, PutQ5_K},          {TensorType::kQ6_K, PutQ6_K}};

// The nearest F16 at b; what is lost is counted.
void PutScale(float value, uint8_t* b, bool& exact, bool& fits) {
  const bool finite = PutHalf(value, b);
  const float stored = HalfAt(b);
  exact &= stored == value;
  fits &= finite && (stored != 0 || value == 0);
}

// The block's codes, after its scale and minimum.
void PutBlockCodes(TensorType type, const float* codes, uint8_t* b) {
  if (type == TensorType::kQ8_0) {
    for (int i = 0; i < kBlockValues; ++i) b[i] = static_cast<uint8_t>(static_cast<int8_t>(codes[i]));
    return;
  }
  const int raised = type == TensorType::kQ4_0 ? 8 : 0;
  PutHalves(b, [&](int i) { return static_cast<int>(codes[i]) + raised; });
}

}  // namespace

std::vector<std::string> TypesWritten() {
  std::vector<std::string> names;
  for (const Written& written : kWritten) names.emplace_back(FindType(static_cast<uint32_t>(written.type))->name);
  return names;
}

bool QuantizeBlocks(TensorType type, const float* x, int64_t blocks, std::byte* data) {
  const auto written = std::ranges::find(kWritten, type, &Written::type);
  TARE_CHECK(written != std::end(kWritten));
  const TypeInfo& info = *FindType(static_cast<uint32_t>(type));
  bool fits = true;
  for (int64_t i = 0; i < blocks; ++i)
    fits &= written->quantize(x + i * info.values, reinterpret_cast<uint8_t*>(data) + i * info.bytes);
  return fits;
}

bool HoldsCodes(TensorType type, const QuantizedMatrix& m) {
  if (m.rotation != nullptr) return false;  // their values are those of rotated codes
  if (!IsInteger(m.format) || m.group % kBlockValues != 0 || m.in % m.group != 0) return false;
  const bool four = Info(m.format).bits <= 4;
  if (type == TensorType::kQ4_1) return four && HasOffset(m.format);
  return !HasOffset(m.format) && (type == TensorType::kQ8_0 || (type == TensorType::kQ4_0 && four));
}

RoundedScales PutCodes(TensorType type, const QuantizedMatrix& m, int64_t row, std::byte* data) {
  TARE_CHECK(HoldsCodes(type, m));
  CheckScales(m, row, "weights");
  thread_local std::vector<float> codes;
  codes.resize(static_cast<size_t>(m.in));
  UnpackRow(m, row, codes);
  const int64_t bytes = FindType(static_cast<uint32_t>(type))->bytes;
  RoundedScales scales{.groups = m.Groups()};
  auto* b = reinterpret_cast<uint8_t*>(data);
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.ScaleOf(row, g);
    const float least = m.minima != nullptr ? m.MinimumOf(row, g) : -m.ZeroOf(row, g) * scale;
    for (int64_t i = g * m.group; i < (g + 1) * m.group; i += kBlockValues, b += bytes) {
      bool exact = true;
      PutScale(scale, b, exact, scales.fit);
      if (type == TensorType::kQ4_1) PutScale(least, b + 2, exact, scales.fit);
      PutBlockCodes(type, codes.data() + i, b + (type == TensorType::kQ4_1 ? 4 : 2));
      if (i == g * m.group && !exact) ++scales.rounded;
    }
  }
  return scales;
}

}  // namespace tare::gguf
