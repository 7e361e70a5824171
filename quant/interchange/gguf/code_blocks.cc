// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/code_blocks.h"

#include <cmath>
#include <vector>

#include "quant/base/error.h"
#include "quant/format/pack.h"
#include "quant/interchange/gguf/half.h"

namespace tare::gguf {
namespace {

constexpr int64_t kBlockCodes = 32;

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
    for (int64_t i = 0; i < kBlockCodes; ++i) b[i] = static_cast<uint8_t>(static_cast<int8_t>(codes[i]));
    return;
  }
  const int raised = type == TensorType::kQ4_0 ? 8 : 0;
  const auto code = [&](int64_t i) { return static_cast<int>(codes[i]) + raised; };
  for (int64_t i = 0; i < kBlockCodes / 2; ++i) b[i] = static_cast<uint8_t>(code(i) | code(i + kBlockCodes / 2) << 4);
}

}  // namespace

bool HoldsCodes(TensorType type, const QuantizedMatrix& m) {
  if (m.rotation != nullptr) return false;  // their values are those of rotated codes
  if (!IsInteger(m.format) || m.group % kBlockCodes != 0 || m.in % m.group != 0) return false;
  const bool four = Info(m.format).bits <= 4;
  if (type == TensorType::kQ4_1) return four && HasOffset(m.format);
  return !HasOffset(m.format) && (type == TensorType::kQ8_0 || (type == TensorType::kQ4_0 && four));
}

RoundedScales PutCodes(TensorType type, const QuantizedMatrix& m, int64_t row, std::byte* data) {
  TARE_CHECK(HoldsCodes(type, m));
  CheckScales(m, row, "weights");
  thread_local std::vector<float> codes;
  codes.resize(static_cast<size_t>(m.in));
  Unpack<float>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()}, codes);
  const int64_t bytes = FindType(static_cast<uint32_t>(type))->bytes;
  RoundedScales scales{.groups = m.Groups()};
  auto* b = reinterpret_cast<uint8_t*>(data);
  for (int64_t g = 0; g < m.Groups(); ++g) {
    const float scale = m.ScaleOf(row, g);
    const float least = m.minima != nullptr ? m.MinimumOf(row, g) : -m.ZeroOf(row, g) * scale;
    for (int64_t i = g * m.group; i < (g + 1) * m.group; i += kBlockCodes, b += bytes) {
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
