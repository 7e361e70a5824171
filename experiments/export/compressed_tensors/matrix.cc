// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/compressed_tensors/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"

namespace tare {
namespace {

// What makes codes from 0 signed: 2^(bits - 1); 0 of signed ones.
int Middle(const QuantizedMatrix& m) { return HasOffset(m.format) ? 1 << (Info(m.format).bits - 1) : 0; }

// What a row of codes is stored as: a byte per value, of integers two's complement.
void StoredRow(const QuantizedMatrix& m, int64_t row, std::vector<float>& values, uint8_t* codes) {
  values.resize(static_cast<size_t>(m.in));
  Unpack<float>(m.format, {m.codes + static_cast<size_t>(row) * m.RowBytes(), m.RowBytes()}, values);
  const FormatInfo& info = Info(m.format);
  const int middle = Middle(m);
  for (size_t i = 0; i < values.size(); ++i)
    codes[i] =
        IsInteger(m.format) ? static_cast<uint8_t>(static_cast<int>(values[i]) - middle) : StoredCode(values[i], info);
}

// Calls body(row, codes of the row) from several threads.
template <typename Body>
void ForRows(const QuantizedMatrix& m, Body body) {
  ParallelFor(static_cast<size_t>(m.out), [&](size_t row, int) {
    thread_local std::vector<float> values;
    thread_local std::vector<uint8_t> codes;
    codes.resize(static_cast<size_t>(m.in));
    StoredRow(m, static_cast<int64_t>(row), values, codes.data());
    body(static_cast<int64_t>(row), codes.data());
  });
}

void AddPackedIntegers(NewModule& module, const QuantizedMatrix& m, ModuleMemory& memory) {
  const int bits = Info(m.format).bits, per_word = 32 / bits;
  const int64_t words = (m.in + per_word - 1) / per_word;
  std::byte* const packed = memory.Add(module, "weight_packed", DType::kI32, {m.out, words});
  ForRows(m, [&](int64_t row, const uint8_t* codes) {
    for (int64_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      for (int64_t i = w * per_word; i < std::min((w + 1) * per_word, m.in); ++i) {
        const uint32_t code = static_cast<uint32_t>(static_cast<int8_t>(codes[i]) + (1 << (bits - 1)));
        word |= code << (i % per_word * bits);
      }
      std::memcpy(packed + (row * words + w) * 4, &word, sizeof word);
    }
  });
  const int64_t shape[2]{m.out, m.in};
  std::memcpy(memory.Add(module, "weight_shape", DType::kI64, {2}), shape, sizeof shape);
}

void AddBytes(NewModule& module, const QuantizedMatrix& m, DType dtype, ModuleMemory& memory) {
  std::byte* const bytes = memory.Add(module, "weight", dtype, {m.out, m.in});
  ForRows(
      m, [&](int64_t row, const uint8_t* codes) { std::memcpy(bytes + row * m.in, codes, static_cast<size_t>(m.in)); });
}

// Neighbours in a byte, the first low.
void AddFloat4(NewModule& module, const QuantizedMatrix& m, ModuleMemory& memory) {
  std::byte* const bytes = memory.Add(module, "weight_packed", DType::kU8, {m.out, m.in / 2});
  ForRows(m, [&](int64_t row, const uint8_t* codes) {
    for (int64_t i = 0; i < m.in / 2; ++i)
      bytes[row * (m.in / 2) + i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
  });
}

// A scale per tensor is repeated for each row in Tare's matrices.
void AddScales(NewModule& module, const QuantizedMatrix& m, const CompressedScheme& scheme, ModuleMemory& memory) {
  const bool whole = scheme.weights["strategy"].get<std::string>() == "tensor";
  const std::vector<int64_t> shape = whole ? std::vector<int64_t>{1} : std::vector{m.out, m.Groups()};
  const bool is_f32 = m.scale_codes == nullptr;
  const DType dtype = is_f32 ? DType::kF32 : IsTwoLevel(m.format.scale) ? DType::kF8E4M3 : DType::kU8;
  std::byte* const scales = memory.Add(module, "weight_scale", dtype, shape);
  const size_t bytes = static_cast<size_t>(*ByteCount(dtype, shape));
  if (is_f32) {
    std::memcpy(scales, m.scales, bytes);
  } else {
    std::memcpy(scales, m.scale_codes, bytes);
  }
}

// Of packed integers, as their codes but along the rows.
void AddPackedZeros(NewModule& module, const QuantizedMatrix& m, ModuleMemory& memory) {
  const int bits = Info(m.format).bits, per_word = 32 / bits;
  const int64_t words = (m.out + per_word - 1) / per_word, groups = m.Groups();
  std::byte* const packed = memory.Add(module, "weight_zero_point", DType::kI32, {words, groups});
  for (int64_t w = 0; w < words; ++w) {
    for (int64_t g = 0; g < groups; ++g) {
      uint32_t word = 0;
      for (int64_t row = w * per_word; row < std::min((w + 1) * per_word, m.out); ++row)
        word |= uint32_t{m.zeros[row * groups + g]} << (row % per_word * bits);
      std::memcpy(packed + (w * groups + g) * 4, &word, sizeof word);
    }
  }
}

// Beside bytes: one for each scale.
void AddByteZeros(NewModule& module, const QuantizedMatrix& m, ModuleMemory& memory) {
  const std::vector<int64_t> shape = module.tensors.back().shape;  // of the scales
  std::byte* const zeros = memory.Add(module, "weight_zero_point", DType::kI8, shape);
  for (int64_t i = 0; i < static_cast<int64_t>(*ByteCount(DType::kI8, shape)); ++i)
    zeros[i] = static_cast<std::byte>(m.zeros[i] - Middle(m));
}

}  // namespace

std::byte* ModuleMemory::Add(NewModule& module, const std::string& part, DType dtype, std::vector<int64_t> shape) {
  AlignedBuffer<std::byte>& bytes = buffers_.emplace_back(static_cast<size_t>(*ByteCount(dtype, shape)));
  std::fill_n(bytes.data(), bytes.size(), std::byte{0});
  module.tensors.push_back({module.name + "." + part, dtype, std::move(shape), bytes.span()});
  return bytes.data();
}

float DivisorFor(float of_tensor) {
  if (of_tensor == 0) return 1;
  const float inverse = 1 / of_tensor;
  const auto misses = [&](float g) {
    int count = 0;
    for (float a = 8; a < 16; ++a) count += a / g != a * of_tensor;  // its other values are these times powers of two
    return count;
  };
  float best = inverse;
  for (const float toward : {0.0f, std::numeric_limits<float>::infinity()}) {
    const float next = std::nextafter(inverse, toward);
    if (misses(next) < misses(best)) best = next;
  }
  return best;
}

NewModule ModuleOf(const std::string& name, const QuantizedMatrix& m, const CompressedScheme& scheme,
                   ModuleMemory& memory, const std::string& where) {
  NewModule module{name, {}};
  if (m.rotation != nullptr)
    Fail(
        "{}: tensor '{}.weight': got codes of rotated weights, expected none, as {} has no rotations; try --format "
        "safetensors",
        where, name, scheme.format);
  if (const int block = Info(m.format).block; block > 0 && m.in % block != 0)
    Fail(
        "{}: tensor '{}.weight': got rows of {} weights, expected a multiple of {} as {} holds them; try another rule "
        "for these weights",
        where, name, m.in, block, scheme.format);
  switch (scheme.layout) {
    case CompressedLayout::kPackedIntegers:
      AddPackedIntegers(module, m, memory);
      break;
    case CompressedLayout::kIntegers:
      AddBytes(module, m, DType::kI8, memory);
      break;
    case CompressedLayout::kFloat8:
      AddBytes(module, m, DType::kF8E4M3, memory);
      break;
    case CompressedLayout::kNvFp4: {
      AddFloat4(module, m, memory);
      const float divisor = DivisorFor(m.of_tensor);
      std::memcpy(memory.Add(module, "weight_global_scale", DType::kF32, {1}), &divisor, sizeof divisor);
      break;
    }
    case CompressedLayout::kMxFp4:
      AddFloat4(module, m, memory);
      break;
  }
  AddScales(module, m, scheme, memory);
  if (m.zeros == nullptr) return module;
  if (scheme.layout == CompressedLayout::kPackedIntegers) {
    AddPackedZeros(module, m, memory);
  } else {
    AddByteZeros(module, m, memory);
  }
  return module;
}

}  // namespace tare
