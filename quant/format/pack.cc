// SPDX-License-Identifier: Apache-2.0
// See pack.h.
#include "quant/format/pack.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "quant/base/error.h"

namespace tare {
namespace {

using Group = std::array<uint8_t, kPackGroup>;  // stored values u

int Offset(Format format) { return Info(format).min_code < 0 ? 1 << (Info(format).bits - 1) : 0; }

template <typename Code>
void CheckFormat(Format format) {
  if (!IsInteger(format)) Fail("pack: got {}, expected codes of 8, 6 or 4 bits", Info(format).name);
  if ((Info(format).min_code < 0) != std::is_signed_v<Code>)
    Fail("pack: got {} for {} codes", Info(format).name, std::is_signed_v<Code> ? "signed" : "unsigned");
}

void CheckSize(Format format, size_t bytes, size_t codes) {
  if (bytes != PackedBytes(format, codes))
    Fail("pack {}: got {} bytes for {} codes, expected {}", Info(format).name, bytes, codes,
         PackedBytes(format, codes));
}

void CheckCode(Format format, int code, size_t index) {
  if (code < Info(format).min_code || code > Info(format).max_code)
    Fail("pack {}: got code {} at {}, expected {} to {}", Info(format).name, code, index, Info(format).min_code,
         Info(format).max_code);
}

size_t GroupBytes(Format format) { return kPackGroup / 8 * static_cast<size_t>(Info(format).bits); }

void PackGroup(Format format, const Group& u, uint8_t* out) {
  if (Info(format).bits == 8) {
    std::ranges::copy(u, out);
    return;
  }
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>((u[i] & 15) | (u[i + 32] & 15) << 4);
  if (Info(format).bits == 4) return;
  for (size_t i = 0; i < 16; ++i)
    out[32 + i] = static_cast<uint8_t>(u[i] >> 4 | u[i + 16] >> 4 << 2 | u[i + 32] >> 4 << 4 | u[i + 48] >> 4 << 6);
}

Group UnpackGroup(Format format, const uint8_t* in) {
  Group u{};
  if (Info(format).bits == 8) {
    std::copy_n(in, kPackGroup, u.begin());
    return u;
  }
  for (size_t i = 0; i < kPackGroup; ++i) u[i] = i < 32 ? in[i] & 15 : in[i - 32] >> 4;
  if (Info(format).bits == 4) return u;
  for (size_t i = 0; i < kPackGroup; ++i)
    u[i] = static_cast<uint8_t>(u[i] | (in[32 + i % 16] >> (i / 16 * 2) & 3) << 4);
  return u;
}

template <typename Code>
void PackBytes(std::span<const Code> codes, std::span<uint8_t> packed) {
  std::ranges::transform(codes, packed.begin(), [](Code code) { return static_cast<uint8_t>(code); });
}

}  // namespace

size_t PackedBytes(Format format, size_t count) {
  if (Info(format).bits == 8) return count;
  if (count > std::numeric_limits<size_t>::max() / 2) Fail("pack {}: got {} codes: too many", Info(format).name, count);
  return (count + kPackGroup - 1) / kPackGroup * GroupBytes(format);
}

template <typename Code>
void Pack(Format format, std::span<const Code> codes, std::span<uint8_t> packed) {
  CheckFormat<Code>(format);
  CheckSize(format, packed.size(), codes.size());
  for (size_t i = 0; i < codes.size(); ++i) CheckCode(format, codes[i], i);
  if (Info(format).bits == 8) return PackBytes(codes, packed);
  for (size_t first = 0; first < codes.size(); first += kPackGroup) {
    Group u;
    for (size_t i = 0; i < kPackGroup; ++i)
      u[i] = static_cast<uint8_t>((first + i < codes.size() ? codes[first + i] : 0) + Offset(format));
    PackGroup(format, u, packed.data() + first / kPackGroup * GroupBytes(format));
  }
}

template <typename Code>
void Unpack(Format format, std::span<const uint8_t> packed, std::span<Code> codes) {
  CheckFormat<Code>(format);
  CheckSize(format, packed.size(), codes.size());
  if (Info(format).bits == 8) {
    for (size_t i = 0; i < codes.size(); ++i) CheckCode(format, codes[i] = static_cast<Code>(packed[i]), i);
    return;
  }
  for (size_t first = 0; first < codes.size(); first += kPackGroup) {
    const Group u = UnpackGroup(format, packed.data() + first / kPackGroup * GroupBytes(format));
    for (size_t i = 0; i < kPackGroup; ++i) {
      const int code = u[i] - Offset(format);
      CheckCode(format, code, first + i);
      if (first + i < codes.size())
        codes[first + i] = static_cast<Code>(code);
      else if (code != 0)
        Fail("pack {}: got code {} after the last of {} codes, expected 0", Info(format).name, code, codes.size());
    }
  }
}

template void Pack(Format, std::span<const int8_t>, std::span<uint8_t>);
template void Pack(Format, std::span<const uint8_t>, std::span<uint8_t>);
template void Unpack(Format, std::span<const uint8_t>, std::span<int8_t>);
template void Unpack(Format, std::span<const uint8_t>, std::span<uint8_t>);

}  // namespace tare
