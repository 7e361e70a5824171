// SPDX-License-Identifier: Apache-2.0
#include "quant/format/pack.h"

#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "quant/base/message.h"

namespace tare {
namespace {

using Group = std::array<uint8_t, kPackGroup>;  // stored u

template <typename Code>
void CheckFormat(const Format& format) {
  if (!HasCodes(format) || (std::is_integral_v<Code> && !IsInteger(format)))
    Fail("pack: got {}, expected codes of {} bits", Name(format),
         std::is_integral_v<Code> ? "8, 6, 4, 3 or 2" : "8 or fewer");
  if (std::is_integral_v<Code> && (Info(format).min_code < 0) != std::is_signed_v<Code>)
    Fail("pack: got {} for {} codes", Name(format), std::is_signed_v<Code> ? "signed" : "unsigned");
}

void CheckSize(const Format& format, size_t bytes, size_t codes) {
  if (bytes != PackedBytes(format, codes))
    Fail("pack {}: got {} bytes for {} codes, expected {}", Name(format), bytes, codes, PackedBytes(format, codes));
}

// An integer's code of u; u itself of others.
int CodeOf(const FormatInfo& info, uint8_t u) {
  if (info.min_code == 0) return u;
  return info.bits == 8 ? static_cast<int8_t>(u) : u - (1 << (info.bits - 1));
}

[[noreturn]] void FailCode(const Format& format, uint8_t u, size_t index) {
  const FormatInfo& info = Info(format);
  const std::string got = Formatted("pack {}: got code {} at {}", Name(format), CodeOf(info, u), index);
  if (info.max_code == 0) Fail("{}, expected one that stands for a value", got);
  Fail("{}, expected {} to {}", got, info.min_code, info.max_code);
}

// What is added to an integer's code to make its u; two's complement of 8 bits needs nothing.
int OffsetOf(const FormatInfo& info) { return info.min_code == 0 || info.bits == 8 ? 0 : 1 << (info.bits - 1); }

// u of integers, without branches, so that compilers make vectors of it. False where one is no code of the format.
template <typename Code>
bool StoreIntegers(const FormatInfo& info, std::span<const Code> codes, uint8_t* u) {
  const int offset = OffsetOf(info), least = info.min_code, most = info.max_code;
  const Code* const from = codes.data();
  int bad = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<int>(from[i]);
    bad |= static_cast<int>(static_cast<Code>(code) != from[i]) | (code < least) | (code > most);
    u[i] = static_cast<uint8_t>(code + offset);
  }
  return bad == 0;
}

// The inverse.
template <typename Code>
bool LoadIntegers(const FormatInfo& info, const uint8_t* u, std::span<Code> codes) {
  const int offset = OffsetOf(info), sign = info.min_code < 0 && info.bits == 8 ? 128 : 0;
  const int least = info.min_code, most = info.max_code;
  Code* const to = codes.data();
  int bad = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const int code = (u[i] ^ sign) - sign - offset;
    bad |= (code < least) | (code > most);
    to[i] = static_cast<Code>(code);
  }
  return bad == 0;
}

// In a list without 0, the code of the value nearest to 0.
uint8_t CodeOfZero(const FormatInfo& info) {
  return StoredCode(info.grid.levels.empty() ? 0.0f : NearestLevel(0.0f, info.grid.levels), info);
}

size_t GroupBytes(const Format& format) { return kPackGroup / 8 * static_cast<size_t>(Info(format).bits); }

// A plane: kWidth bits of each code, from bit `low` on. Returns the end of what it wrote or read.
template <int kWidth>
uint8_t* PackPlane(const Group& u, int low, uint8_t* out) {
  constexpr size_t kBytes = 8 * kWidth;
  for (size_t i = 0; i < kBytes; ++i) {
    int byte = 0;
    for (size_t j = 0; j < 8 / kWidth; ++j) byte |= (u[i + j * kBytes] >> low & ((1 << kWidth) - 1)) << (j * kWidth);
    *out++ = static_cast<uint8_t>(byte);
  }
  return out;
}

template <int kWidth>
const uint8_t* UnpackPlane(const uint8_t* in, int low, Group& u) {
  constexpr size_t kBytes = 8 * kWidth;
  for (size_t j = 0; j < 8 / kWidth; ++j) {
    for (size_t i = 0; i < kBytes; ++i) {
      const int part = in[i] >> (j * kWidth) & ((1 << kWidth) - 1);
      u[i + j * kBytes] = static_cast<uint8_t>(u[i + j * kBytes] | part << low);
    }
  }
  return in + kBytes;
}

void CheckPoints(size_t n) {
  if (n % kLatticeWidth != 0) Fail("pack e8p: got {} values, expected a multiple of {}", n, kLatticeWidth);
}

template <typename Value>
void PackPoints(std::span<const Value> values, uint8_t* packed) {
  CheckPoints(values.size());
  for (size_t i = 0; i < values.size(); i += kLatticeWidth) {
    float point[kLatticeWidth];
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(i), kLatticeWidth, point);
    const std::optional<uint16_t> code = LatticeCode(point);
    if (!code) Fail("pack e8p: got values at {} to {} that are no point of the lattice", i, i + kLatticeWidth - 1);
    *packed++ = static_cast<uint8_t>(*code & 255);
    *packed++ = static_cast<uint8_t>(*code >> 8);
  }
}

template <typename Value>
void UnpackPoints(const uint8_t* packed, std::span<Value> values) {
  CheckPoints(values.size());
  for (size_t i = 0; i < values.size(); i += kLatticeWidth, packed += 2) {
    float point[kLatticeWidth];
    LatticePoint(static_cast<uint16_t>(packed[0] | packed[1] << 8), point);
    std::copy_n(point, kLatticeWidth, values.begin() + static_cast<ptrdiff_t>(i));
  }
}

void PackGroup(int bits, const Group& u, uint8_t* out) {
  if (bits >= 4) out = PackPlane<4>(u, 0, out);
  if (bits == 2 || bits == 3 || bits == 6) out = PackPlane<2>(u, bits == 6 ? 4 : 0, out);
  if (bits == 1 || bits == 3) PackPlane<1>(u, bits == 3 ? 2 : 0, out);
}

Group UnpackGroup(int bits, const uint8_t* in) {
  Group u{};
  if (bits >= 4) in = UnpackPlane<4>(in, 0, u);
  if (bits == 2 || bits == 3 || bits == 6) in = UnpackPlane<2>(in, bits == 6 ? 4 : 0, u);
  if (bits == 1 || bits == 3) UnpackPlane<1>(in, bits == 3 ? 2 : 0, u);
  return u;
}

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

float IntegerOf(int u, const FormatInfo& info) {
  const int code = CodeOf(info, static_cast<uint8_t>(u));
  return code < info.min_code || code > info.max_code ? kNone : static_cast<float>(code);
}

// Sign, exponent, mantissa; exponent 0 has the steps of exponent 1 and no leading bit.
float FloatOf(int u, int bits, const Grid& grid) {
  const int magnitude = u & ((1 << (bits - 1)) - 1), exponent = magnitude >> grid.mantissa_bits;
  const int mantissa = magnitude - (exponent << grid.mantissa_bits);
  const int steps = exponent == 0 ? mantissa : mantissa + (1 << grid.mantissa_bits);
  const float value = std::ldexp(static_cast<float>(steps) * grid.Step(), std::max(exponent, 1) - 1);
  return u == magnitude ? value : -value;
}

// The first u of IF4's sevenths: one bit more than a code has, which is not stored.
constexpr int kFirstSeventh = 16;

uint8_t CodeOfSevenths(float value) {
  const auto sevenths = static_cast<int>(std::lround(std::fabs(value) * 7 / 6));
  return static_cast<uint8_t>(kFirstSeventh + sevenths + (value < 0 ? 8 : 0));
}

float ValueOf(int u, const FormatInfo& info) {
  const Grid& grid = info.grid;
  if (!grid.evenly.empty() && u / kFirstSeventh == 1)
    return grid.evenly[static_cast<size_t>(7 + (u & 8 ? -(u & 7) : u & 7))];
  if (info.bits > 8 || u >= 1 << info.bits) return kNone;  // f32 and bf16 have no codes
  if (info.max_code > 0) return IntegerOf(u, info);
  if (!grid.levels.empty()) return u < std::ssize(grid.levels) ? grid.levels[static_cast<size_t>(u)] : kNone;
  const float value =
      grid.twos_complement ? static_cast<float>(static_cast<int8_t>(u)) * grid.Step() : FloatOf(u, info.bits, grid);
  return std::fabs(value) <= grid.largest ? value : kNone;
}

template <typename Value>
std::array<float, 256> TableOf(Value value) {
  std::array<float, 256> table{};
  for (int u = 0; u < 256; ++u) table[static_cast<size_t>(u)] = value(u);
  return table;
}

}  // namespace

const std::array<float, 256>& StoredValues(const Format& format) {
  static const auto kTables = [] {
    std::vector<std::array<float, 256>> tables;  // [range][base]
    for (const auto& of_range : kInfos) {
      for (const FormatInfo& info : of_range[0]) tables.push_back(TableOf([&info](int u) { return ValueOf(u, info); }));
    }
    return tables;
  }();
  if (!format.levels.empty()) return format.levels.table();
  return kTables[static_cast<size_t>(format.range) * kFormats.size() + static_cast<size_t>(format.base)];
}

uint8_t StoredScale(float scale, ScaleType type, float of_tensor) {
  if (scale == 0.0f) return 0;
  if (IsTwoLevel(type)) return StoredCode(Nearest(scale / of_tensor, kE4M3), Info(Format::kFp8E4M3));
  return static_cast<uint8_t>(std::ilogb(scale) + 127);
}

const std::array<float, 256>& ScaleValues(ScaleType type) {
  static const std::array<float, 256> kPowers =
      TableOf([](int u) { return u == 255 ? kNone : std::ldexp(1.0f, u - 127); });
  static const std::array<float, 256> kE4M3Scales =
      TableOf([](int u) { return u < 127 ? StoredValues(Format::kFp8E4M3)[static_cast<size_t>(u)] : kNone; });
  static const std::array<float, 256> kSigned =
      TableOf([](int u) { return kE4M3Scales[static_cast<size_t>(u & 127)]; });
  if (type == ScaleType::kTwoLevelSigned) return kSigned;
  return IsTwoLevel(type) ? kE4M3Scales : kPowers;
}

size_t PackedBytes(const Format& format, size_t count) {
  if (Info(format).together > 1) return count / kLatticeWidth * 2;
  if (Info(format).bits == 8) return count;
  if (count > std::numeric_limits<size_t>::max() / 2) Fail("pack {}: got {} codes: too many", Name(format), count);
  return (count + kPackGroup - 1) / kPackGroup * GroupBytes(format);
}

template <typename Code>
void Pack(const Format& format, std::span<const Code> codes, std::span<uint8_t> packed) {
  CheckFormat<Code>(format);
  CheckSize(format, packed.size(), codes.size());
  const FormatInfo& info = Info(format);
  if (info.together > 1) return PackPoints(codes, packed.data());
  const std::array<float, 256>& values = StoredValues(format);
  const auto stored = [&](size_t i) {
    const auto code = static_cast<float>(codes[i]);
    uint8_t u = StoredCode(code, info);
    if (values[u] != code && !info.grid.evenly.empty()) u = CodeOfSevenths(code);
    if (values[u] != code) FailCode(format, u, i);
    return u;
  };
  const auto store = [&](size_t first, size_t count, uint8_t* u) {
    if (IsInteger(format) && StoreIntegers(info, codes.subspan(first, count), u)) return;
    for (size_t i = 0; i < count; ++i) u[i] = stored(first + i);
  };
  if (info.bits == 8) return store(0, codes.size(), packed.data());
  const uint8_t zero = CodeOfZero(info);
  for (size_t first = 0; first < codes.size(); first += kPackGroup) {
    Group u;
    const size_t count = std::min(kPackGroup, codes.size() - first);
    store(first, count, u.data());
    std::fill(u.begin() + static_cast<ptrdiff_t>(count), u.end(), zero);
    PackGroup(info.bits, u, packed.data() + first / kPackGroup * GroupBytes(format));
  }
}

template <typename Code>
void Unpack(const Format& format, std::span<const uint8_t> packed, std::span<Code> codes) {
  CheckFormat<Code>(format);
  CheckSize(format, packed.size(), codes.size());
  const FormatInfo& info = Info(format);
  if (info.together > 1) return UnpackPoints(packed.data(), codes);
  const std::array<float, 256>& values = StoredValues(format);
  const auto value = [&](uint8_t u, size_t i) {
    if (values[u] != values[u]) FailCode(format, u, i);
    return static_cast<Code>(values[u]);
  };
  const auto load = [&](const uint8_t* u, size_t first, size_t count) {
    if (IsInteger(format) && LoadIntegers(info, u, codes.subspan(first, count))) return;
    for (size_t i = 0; i < count; ++i) codes[first + i] = value(u[i], first + i);
  };
  if (info.bits == 8) return load(packed.data(), 0, codes.size());
  const uint8_t zero = CodeOfZero(info);
  for (size_t first = 0; first < codes.size(); first += kPackGroup) {
    const Group u = UnpackGroup(info.bits, packed.data() + first / kPackGroup * GroupBytes(format));
    const size_t count = std::min(kPackGroup, codes.size() - first);
    load(u.data(), first, count);
    for (size_t i = count; i < kPackGroup; ++i) {
      if (u[i] != zero)
        Fail("pack {}: got code {} after the last of {} codes, expected that of 0", Name(format), CodeOf(info, u[i]),
             codes.size());
    }
  }
}

template void Pack(const Format&, std::span<const int8_t>, std::span<uint8_t>);
template void Pack(const Format&, std::span<const uint8_t>, std::span<uint8_t>);
template void Pack(const Format&, std::span<const float>, std::span<uint8_t>);
template void Unpack(const Format&, std::span<const uint8_t>, std::span<int8_t>);
template void Unpack(const Format&, std::span<const uint8_t>, std::span<uint8_t>);
template void Unpack(const Format&, std::span<const uint8_t>, std::span<float>);

}  // namespace tare
