// SPDX-License-Identifier: Apache-2.0
// Each type reads a block into integers, scales and minima; both its values and its integer codes are made of these.
#include "quant/interchange/gguf/blocks.h"

#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare::gguf {
namespace {

using Bytes = const uint8_t*;

constexpr int kHalf = 16, kBlock = 32, kSuper = 256;
constexpr std::array<int8_t, 16> kIq4Nl{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Codes i and i + 16, from the low and the high half of byte i of 16 bytes; code(half) gives each.
template <typename Code>
void Halves(Bytes __restrict q, int8_t* __restrict codes, Code code) {
  for (int i = 0; i < kHalf; ++i) codes[i] = static_cast<int8_t>(code(q[i] & 15));
  for (int i = 0; i < kHalf; ++i) codes[i + kHalf] = static_cast<int8_t>(code(q[i] >> 4));
}

constexpr uint64_t kEachByte = 0x0101010101010101;

// A 16 in byte i where bit i is set. Bit i alone, plus 127, has bit 7 unless it is 0.
uint64_t SixteenWhereSet(uint8_t bits) {
  const uint64_t alone = bits * kEachByte & 0x8040201008040201;
  return ((alone + 0x7f * kEachByte) & 0x80 * kEachByte) >> 3;
}

// The codes of Halves with a fifth bit: bit i of `fifth` for value i.
void FiveBits(Bytes __restrict fifth, int8_t* __restrict codes) {
  Halves(fifth + 4, codes, [](int q) { return q; });
  for (int byte = 0; byte < kBlock / 8; ++byte) {
    const uint64_t eight = Load<uint64_t>(codes + 8 * byte) | SixteenWhereSet(fifth[byte]);
    std::memcpy(codes + 8 * byte, &eight, sizeof eight);
  }
}

template <int kCount>
void Subtract(int middle, int8_t* codes) {
  for (int i = 0; i < kCount; ++i) codes[i] = static_cast<int8_t>(codes[i] - middle);
}

template <int kValuesOf, int kGroupOf, Format::Base kBase, CodeRange kRange = CodeRange::kOwn>
struct Layout {
  static constexpr int kValues = kValuesOf, kGroup = kGroupOf, kGroups = kValues / kGroup;
  static constexpr Format kFormat = WithRange(kBase, kRange);
  static constexpr bool kHasMinima = kRange == CodeRange::kMin;
};

struct Q8_0 : Layout<32, 32, Format::kInt8, CodeRange::kFull> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    to.scales[0] = HalfAt(b);
    std::memcpy(to.codes.data(), b + 2, kBlock);
  }
};

// d, m where the format has one, fifth bits where codes have them, and the low four bits; kMiddle is the code of 0.
template <int kBits, int kMiddle, Format::Base kBase, CodeRange kRange>
struct Nibbles : Layout<32, 32, kBase, kRange> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    constexpr bool kHasMinima = Nibbles::kHasMinima;
    to.scales[0] = HalfAt(b);
    if constexpr (kHasMinima) to.minima[0] = HalfAt(b + 2);
    const Bytes codes = b + (kHasMinima ? 4 : 2);
    if constexpr (kBits == 5) {
      FiveBits(codes, to.codes.data());
      if constexpr (kMiddle != 0) Subtract<kBlock>(kMiddle, to.codes.data());
    } else {
      Halves(codes, to.codes.data(), [](int q) { return q - kMiddle; });
    }
  }
};

using Q4_0 = Nibbles<4, 8, Format::kInt4, CodeRange::kFull>;
using Q4_1 = Nibbles<4, 0, Format::kInt4, CodeRange::kMin>;
using Q5_0 = Nibbles<5, 16, Format::kInt6, CodeRange::kOwn>;
using Q5_1 = Nibbles<5, 0, Format::kInt6, CodeRange::kMin>;

// The scale, and behind its bytes codes, each of which has an integer in a table.
template <Format::Base kBase, const std::array<int8_t, 16>& kTableOf, float (*kScale)(Bytes b), int kScaleBytes>
struct ByTable : Layout<32, 32, kBase> {
  static constexpr const std::array<int8_t, 16>& kTable = kTableOf;
  static float Scale(Bytes b) { return kScale(b); }
  static Bytes Nibbles(Bytes b) { return b + kScaleBytes; }
  static void Read(Bytes b, BlockIntegers& to) {
    to.scales[0] = Scale(b);
    Halves(Nibbles(b), to.codes.data(), [](int q) { return kTable[static_cast<size_t>(q)]; });
  }
};

float ScaleOfMxfp4(Bytes b) { return HalfOfE8M0(b[0]); }

using IQ4_NL = ByTable<Format::kInt8, kIq4Nl, HalfAt, 2>;
using MXFP4 = ByTable<Format::kInt6, kTwiceE2M1, ScaleOfMxfp4, 1>;

constexpr int kGroup16 = 16;  // values; a block of 256 has 16 such groups

// Sixteen neighbouring codes, a byte each.
struct Sixteen {
  std::array<uint64_t, 2> words;

  // Takes the same bits of each of sixteen bytes; the mask drops bits that a shift brings from the next byte.
  Sixteen(Bytes bytes, int shift, uint64_t mask) {
    std::memcpy(words.data(), bytes, sizeof words);
    for (uint64_t& word : words) word = word >> shift & mask * kEachByte;
  }
  Sixteen With(const Sixteen& high, int bits) const {
    Sixteen both = *this;
    for (size_t i = 0; i < words.size(); ++i) both.words[i] |= high.words[i] << bits;
    return both;
  }
  void Store(int8_t* codes) const { std::memcpy(codes, words.data(), sizeof words); }
};

// Group g of two-bit codes: 32 bytes hold four times 32 values, the first in the lowest bits.
Sixteen TwoBits(Bytes q, int g) { return {q + g / 8 * 32 + g % 2 * kGroup16, g % 8 / 2 * 2, 3}; }

struct Q2_K : Layout<kSuper, kGroup16, Format::kInt4, CodeRange::kMin> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    const Bytes scales = b, codes = b + 16;
    const float d = HalfAt(b + 80), dmin = HalfAt(b + 82);
    for (int g = 0; g < kGroups; ++g) {
      to.scales[g] = d * static_cast<float>(scales[g] & 15);
      to.minima[g] = -(dmin * static_cast<float>(scales[g] >> 4));
      TwoBits(codes, g).Store(to.codes.data() + kGroup * g);
    }
  }
};

// The scale of group g: four low bits in a half of byte g % 8, two high bits in byte 8 + g % 4.
int ScaleOfQ3(Bytes s, int g) {
  const int low = s[g % 8] >> (g / 8 * 4) & 15, high = s[8 + g % 4] >> (g / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// The third bit is stored inverted: where it is 0, 4 is subtracted. Values i, i + 32, ... have theirs in byte i.
struct Q3_K : Layout<kSuper, kGroup16, Format::kInt4> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    const Bytes codes = b + 32, scales = b + 96;
    const float d = HalfAt(b + 108);
    for (int g = 0; g < kGroups; ++g) {
      to.scales[g] = d * static_cast<float>(ScaleOfQ3(scales, g));
      TwoBits(codes, g).With({b + g % 2 * kGroup, g / 2, 1}, 2).Store(to.codes.data() + kGroup * g);
    }
    Subtract<kSuper>(4, to.codes.data());
  }
};

struct ScaleAndLeast {
  int scale, least;
};
// Six bits each, in 12 bytes: groups 0 to 3 in the low bits of bytes 0 to 3 and 4 to 7; groups 4 to 7 have four bits in
// a half of bytes 8 to 11 and two in the high bits of the former.
ScaleAndLeast ScalesOfQ4(Bytes s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | s[g - 4] >> 6 << 4, s[g + 4] >> 4 | s[g] >> 6 << 4};
}

// 32 bytes hold two groups' low bits; with five, group g has bit g of the 32 bytes before them.
template <int kBits, Format::Base kBase>
struct EightGroups : Layout<kSuper, kBlock, kBase, CodeRange::kMin> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    const float d = HalfAt(b), dmin = HalfAt(b + 2);
    const Bytes fifth = b + 16, low = b + (kBits == 5 ? 48 : 16);
    for (int g = 0; g < kSuper / kBlock; ++g) {
      const auto [scale, least] = ScalesOfQ4(b + 4, g);
      to.scales[g] = d * static_cast<float>(scale);
      to.minima[g] = -(dmin * static_cast<float>(least));
      for (int half = 0; half < kBlock; half += kGroup16) {
        Sixteen codes(low + g / 2 * 32 + half, g % 2 * 4, 15);
        if constexpr (kBits == 5) codes = codes.With({fifth + half, g, 1}, 4);
        codes.Store(to.codes.data() + kBlock * g + half);
      }
    }
  }
};

using Q4_K = EightGroups<4, Format::kInt4>;
using Q5_K = EightGroups<5, Format::kInt6>;

// 64 bytes of low bits hold 128 values: the first 64 in their low halves; their two high bits are laid out as TwoBits.
struct Q6_K : Layout<kSuper, kGroup16, Format::kInt6, CodeRange::kFull> {
  static void Read(Bytes __restrict b, BlockIntegers& __restrict to) {
    const Bytes low = b, high = b + 128, scales = b + 192;
    const float d = HalfAt(b + 208);
    for (int g = 0; g < kGroups; ++g) {
      to.scales[g] = d * static_cast<float>(static_cast<int8_t>(scales[g]));
      Sixteen(low + g / 8 * 64 + g % 4 * kGroup, g % 8 / 4 * 4, 15)
          .With(TwoBits(high, g), 4)
          .Store(to.codes.data() + kGroup * g);
    }
    Subtract<kSuper>(32, to.codes.data());
  }
};

template <typename Type>
void Values(Bytes b, int64_t bytes, int64_t blocks, float* y) {
  BlockIntegers block;
  for (; blocks > 0; --blocks, b += bytes) {
    Type::Read(b, block);
    for (int g = 0; g < Type::kGroups; ++g, y += Type::kGroup) {
      const int8_t* const codes = block.codes.data() + g * Type::kGroup;
      const float scale = block.scales[g], least = Type::kHasMinima ? block.minima[g] : 0.0f;
      for (int i = 0; i < Type::kGroup; ++i) {
        const float value = static_cast<float>(codes[i]) * scale;
        y[i] = Type::kHasMinima ? value + least : value;
      }
    }
  }
}

// A product for each of the sixteen codes, instead of each value.
template <typename Type>
void TableValues(Bytes b, int64_t bytes, int64_t blocks, float* y) {
  for (; blocks > 0; --blocks, b += bytes, y += kBlock) {
    const float scale = Type::Scale(b);
    std::array<float, 16> values;
    for (size_t code = 0; code < values.size(); ++code) values[code] = static_cast<float>(Type::kTable[code]) * scale;
    const Bytes nibbles = Type::Nibbles(b);
    for (int i = 0; i < kHalf; ++i) {
      y[i] = values[nibbles[i] & 15];
      y[i + kHalf] = values[nibbles[i] >> 4];
    }
  }
}

template <DType kType>
void Floats(Bytes b, int64_t bytes, int64_t values, float* y) {
  for (int64_t i = 0; i < values; ++i) y[i] = FloatAt(kType, reinterpret_cast<const std::byte*>(b + i * bytes));
}

struct TypeReader : TypeInfo {
  void (*dequantize)(Bytes b, int64_t bytes, int64_t blocks, float* y);  // bytes: of a block
  void (*read)(Bytes b, BlockIntegers& to);                              // null: floats
  IntegerForm form;
};

template <typename Type>
constexpr TypeReader Reader(TensorType type, std::string_view name, int64_t bytes) {
  constexpr IntegerForm kForm{Type::kFormat, Type::kGroup};
  if constexpr (requires { Type::kTable; }) {
    return {{type, name, Type::kValues, bytes}, TableValues<Type>, Type::Read, kForm};
  } else {
    return {{type, name, Type::kValues, bytes}, Values<Type>, Type::Read, kForm};
  }
}

constexpr TypeReader kReaders[]{{{TensorType::kF32, "F32", 1, 4}, Floats<DType::kF32>, nullptr, {}},
                                {{TensorType::kF16, "F16", 1, 2}, Floats<DType::kF16>, nullptr, {}},
                                {{TensorType::kBF16, "BF16", 1, 2}, Floats<DType::kBF16>, nullptr, {}},
                                Reader<Q8_0>(TensorType::kQ8_0, "Q8_0", 34),
                                Reader<Q4_0>(TensorType::kQ4_0, "Q4_0", 18),
                                Reader<Q4_1>(TensorType::kQ4_1, "Q4_1", 20),
                                Reader<Q5_0>(TensorType::kQ5_0, "Q5_0", 22),
                                Reader<Q5_1>(TensorType::kQ5_1, "Q5_1", 24),
                                Reader<Q2_K>(TensorType::kQ2_K, "Q2_K", 84),
                                Reader<Q3_K>(TensorType::kQ3_K, "Q3_K", 110),
                                Reader<Q4_K>(TensorType::kQ4_K, "Q4_K", 144),
                                Reader<Q5_K>(TensorType::kQ5_K, "Q5_K", 176),
                                Reader<Q6_K>(TensorType::kQ6_K, "Q6_K", 210),
                                Reader<IQ4_NL>(TensorType::kIQ4_NL, "IQ4_NL", 18),
                                Reader<MXFP4>(TensorType::kMXFP4, "MXFP4", 17)};

const TypeReader& ReaderOf(TensorType type) {
  const TypeReader* const reader = FindIn(kReaders, type, &TypeInfo::type);
  TARE_CHECK(reader != nullptr);
  return *reader;
}

}  // namespace

const TypeInfo* FindType(uint32_t id) { return FindIn(kReaders, static_cast<TensorType>(id), &TypeInfo::type); }
const TypeInfo* FindType(std::string_view name) { return FindIn(kReaders, name, &TypeInfo::name); }
std::string TypesRead() { return tare::Listed(kReaders, ", ", &TypeInfo::name, " or "); }

void DequantizeBlocks(TensorType type, const std::byte* data, int64_t blocks, float* y) {
  const TypeReader& reader = ReaderOf(type);
  reader.dequantize(reinterpret_cast<Bytes>(data), reader.bytes, blocks, y);
}

IntegerForm IntegersOfType(TensorType type) { return ReaderOf(type).form; }

void ReadIntegers(TensorType type, const std::byte* block, BlockIntegers& to) {
  ReaderOf(type).read(reinterpret_cast<Bytes>(block), to);
}

}  // namespace tare::gguf
