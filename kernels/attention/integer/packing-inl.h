// SPDX-License-Identifier: Apache-2.0
// See packing.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/attention/integer/packing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/cache_control.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/format/round.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::packing {

// Values i onwards of `count`; zeros after the last.
HWY_INLINE VF LoadSome(const float* x, int i, int count) {
  const DF d;
  return i + kLanes <= count ? hn::LoadU(d, x + i) : hn::LoadN(d, x + i, static_cast<size_t>(std::max(0, count - i)));
}

HWY_INLINE VF LoadMinus(const float* x, const float* minus, int i, int count) {
  return minus == nullptr ? LoadSome(x, i, count) : hn::Sub(LoadSome(x, i, count), LoadSome(minus, i, count));
}

// 8 vectors of columns at a time stay in registers while the rows go by: a row is read as memory has it.
void AbsMaxColumns(const float* x, int64_t stride, int64_t rows, int width, const float* minus, float* out) {
  constexpr int kVectors = 8;
  const DI di;
  const int columns = static_cast<int>(RoundUp(width, kTile));
  for (int first = 0; first < columns; first += kVectors * kLanes) {
    VI largest[kVectors];
    for (VI& vector : largest) vector = hn::Zero(di);
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < kVectors; ++i) {
        const VF value = LoadMinus(x + r * stride, minus, first + i * kLanes, width);
        largest[i] = hn::Max(largest[i], hn::BitCast(di, hn::Abs(value)));
      }
    }
    for (int i = 0; i < kVectors && first + i * kLanes < columns; ++i)
      hn::StoreU(hn::BitCast(DF(), largest[i]), DF(), out + first + i * kLanes);
  }
}

// 4 keys x width columns; rows beyond `rows` count as zeros. Each sum with kToNearest has code + 128 in its low bits;
// four such bytes add up to a group without masking, and the rest is a constant.
void ValueGroup(const float* x, int64_t stride, int rows, int width, const float* minus, const float* inv,
                int8_t* codes, int64_t column_tile_bytes, int32_t* sums) {
  const DF d;
  const DI di;
  const VF magic = hn::Set(d, kToNearest + 128);
  const VI extra = hn::Set(di, static_cast<int32_t>(kToNearestBits * 0x01010101u)),
           sign = hn::Set(di, static_cast<int32_t>(0x80808080u));
  const VI all = hn::Set(di, static_cast<int32_t>(4 * (kToNearestBits + 128)));
  for (int i = 0; i < RoundUp(width, kTile); i += kLanes) {
    const VF factor = hn::LoadU(d, inv + i);
    const auto code = [&](int r) HWY_ATTR {
      const VF value = r < rows ? LoadMinus(x + r * stride, minus, i, width) : hn::Zero(d);
      return hn::BitCast(di, hn::Add(hn::Mul(value, factor), magic));
    };
    const VI a = code(0), b = code(1), c = code(2), e = code(3);
    const VI sum = hn::Sub(hn::Add(hn::Add(a, b), hn::Add(c, e)), all);
    hn::StoreU(hn::Add(hn::LoadU(di, sums + i), sum), di, sums + i);
    const VI low = hn::Add(a, hn::ShiftLeft<8>(b)), high = hn::Add(hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(e));
    int8_t* at = codes + i / kTile * column_tile_bytes + i % kTile * 4;
    hn::StoreU(hn::Xor(hn::Sub(hn::Add(low, high), extra), sign), di, reinterpret_cast<int32_t*>(at));
  }
}

constexpr int kStep = 4 * kLanes;

// How a row is read: whole vectors, or with a tail and a vector to subtract; zeros after the last.
struct Whole {
  HWY_INLINE VF operator()(const float* x, int i) const { return hn::LoadU(DF(), x + i); }
};

struct Careful {
  int width;
  const float* minus;
  HWY_INLINE VF operator()(const float* x, int i) const { return LoadMinus(x, minus, i, width); }
};

// Magnitudes compare as integers, NaN above all: a lane is finite only if all that it saw were.
template <class Load>
HWY_INLINE VI Magnitudes(const float* x, int width, Load load) {
  const DI di;
  VI largest = hn::Zero(di);
  for (int i = 0; i < width; i += kLanes) largest = hn::Max(largest, hn::BitCast(di, hn::Abs(load(x, i))));
  return largest;
}

// Writes a row's bytes, returns lanes that sum to the codes' sum plus magic's bits for each of RoundUp(width, 64)
// values. magic: kToNearest and what is added to each code.
template <class Load>
HWY_INLINE VI Bytes(const float* x, int width, Load load, float inv, float magic, uint8_t* out) {
  const DF d;
  const DI di;
  const hn::Repartition<uint16_t, DF> d16;
  const hn::Repartition<uint8_t, DF> d8;
  const VF factor = hn::Set(d, inv), magics = hn::Set(d, magic);
  VI sum = hn::Zero(di);
  const auto code = [&](int i) HWY_ATTR {
    const auto bits = hn::BitCast(DU(), hn::Add(hn::Mul(load(x, i), factor), magics));
    sum = hn::Add(sum, hn::BitCast(di, bits));
    return bits;
  };
  for (int i = 0; i < width; i += 64) {
    for (int j = i; j < i + 64; j += kStep) {
      const auto a = code(j), b = code(j + kLanes), c = code(j + 2 * kLanes), e = code(j + 3 * kLanes);
      hn::Store(hn::OrderedTruncate2To(d8, hn::OrderedTruncate2To(d16, a, b), hn::OrderedTruncate2To(d16, c, e)), d8,
                out + j);
    }
  }
  return sum;
}

template <class Load>
HWY_INLINE void FourRows(const std::array<const float*, kRowsAtOnce>& rows, int width, Load load, Format format,
                         int offset, RowCodes& out, const std::array<float, kRowsAtOnce>& least) {
  const DI di;
  const hn::BlockDFromD<DI> four;
  VI lanes[4];
  for (int r = 0; r < 4; ++r) lanes[r] = Magnitudes(rows[r], width, load);
  HWY_ALIGN int32_t largest[4];
  hn::Store(ReduceFour(di, lanes[0], lanes[1], lanes[2], lanes[3], Largest()), four, largest);
  const float magic = kToNearest + static_cast<float>(offset);
  for (int r = 0; r < 4; ++r) {
    const float absmax = std::max(std::bit_cast<float>(largest[r]), least[r]);  // NaN stays
    const bool finite = absmax <= std::numeric_limits<float>::max();
    const Scale scale = finite ? ScaleFor(absmax, format) : Scale{0, absmax};
    out.scales[r] = scale.scale;
    lanes[r] = Bytes(rows[r], width, load, scale.inv, magic, out.codes[r]);
  }
  const int32_t all = static_cast<int32_t>(static_cast<uint32_t>(RoundUp(width, 64)) * std::bit_cast<uint32_t>(magic));
  hn::Store(hn::Sub(ReduceFour(di, lanes[0], lanes[1], lanes[2], lanes[3], Total()), hn::Set(four, all)), four,
            out.sums);
}

void RowsToCodes(const std::array<const float*, kRowsAtOnce>& rows, int width, const float* minus, Format format,
                 int offset, RowCodes& out, const std::array<float, kRowsAtOnce>& least) {
  if (minus == nullptr && width % 64 == 0) return FourRows(rows, width, Whole(), format, offset, out, least);
  FourRows(rows, width, Careful{width, minus}, format, offset, out, least);
}

// 4 x 4 groups at a time: transposed, they are 16 neighbouring bytes per group.
void Interleave(const RowCodes& rows, int groups, int first, int8_t* tile) {
  const hn::FixedTag<uint32_t, 4> d;
  const auto load = [&](int row, int group)
                        HWY_ATTR { return hn::Load(d, reinterpret_cast<const uint32_t*>(rows.codes[row]) + group); };
  auto* keys = reinterpret_cast<uint32_t*>(tile) + first;
  for (int group = 0; group < groups; group += 4) {
    TransposeFour(d, load(0, group), load(1, group), load(2, group), load(3, group), [&](int i, auto v) HWY_ATTR {
      if (group + i < groups) hn::StoreU(v, d, keys + (group + i) * 64);
    });
  }
}

// A vector holds 4 channels of a key in each lane: byte j is moved to the top and back with its sign.
void TileBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias) {
  const DF d;
  const DI di;
  for (int key = 0; key < kTile; key += kLanes) {
    auto sum = hn::Zero(d);
    for (int channel = 0; channel < width; ++channel) {
      const auto four = hn::LoadU(di, reinterpret_cast<const int32_t*>(codes) + channel / 4 * kTile + key);
      const auto code = hn::ShiftRight<24>(hn::ShiftLeftSame(four, 24 - 8 * (channel % 4)));
      sum = hn::MulAdd(hn::Set(d, mean[channel]), hn::ConvertTo(d, code), sum);
    }
    hn::StoreU(hn::Mul(sum, hn::LoadU(d, key_scales + key)), d, bias + key);
  }
}

}  // namespace HWY_NAMESPACE::packing
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {
namespace {

[[noreturn]] void FailAt(const char* name, const HeadsView<const float>& x, int head, int64_t first, int64_t count) {
  for (int64_t t = first; t < first + count; ++t) CheckRow(name, x, t, head);
  Fail("attention {}: values of head {} overflow float32 once the smoothing vector is subtracted", name, head);
}

// Rows of one head lie a token apart, each on its own page: fetch some rows ahead.
void PrefetchRow(const float* row, int width) {
  for (int i = 0; i < width; i += 16) hwy::Prefetch(row + i);
}

// Rows first .. first + 3; the last of `end` again where there are fewer.
std::array<const float*, kRowsAtOnce> FourRows(const HeadsView<const float>& x, int head, int64_t first, int64_t end) {
  std::array<const float*, kRowsAtOnce> rows;
  for (int i = 0; i < kRowsAtOnce; ++i) rows[i] = x.Row(std::min(first + i, end - 1), head);
  return rows;
}

// Their magnitudes; zeros of null.
std::array<float, kRowsAtOnce> FourOf(const float* absmax, int64_t first, int64_t end) {
  std::array<float, kRowsAtOnce> four{};
  for (int i = 0; absmax != nullptr && i < kRowsAtOnce; ++i) four[i] = absmax[std::min(first + i, end - 1)];
  return four;
}

}  // namespace

void ToRowCodes(const std::array<const float*, kRowsAtOnce>& rows, int width, const float* minus, Format format,
                CodeOffset offset, RowCodes& out, const std::array<float, kRowsAtOnce>& least) {
  TARE_CHOSEN(packing::RowsToCodes)(rows, width, minus, format, static_cast<int>(offset), out, least);
}

void InterleaveRows(const RowCodes& rows, int groups, int first, int8_t* tile) {
  TARE_CHOSEN(packing::Interleave)(rows, groups, first, tile);
}

void KeyBias(const int8_t* codes, int width, const float* mean, const float* key_scales, float* bias) {
  TARE_CHOSEN(packing::TileBias)(codes, width, mean, key_scales, bias);
}

void PackQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format,
                 const float* smooth, uint8_t* codes, float* scales, const float* absmax) {
  constexpr int kAhead = 8;
  const int64_t stride = RoundUp(q.width, 4);
  RowCodes four;
  for (int r = 0; r < count; r += kRowsAtOnce) {
    for (int i = r + kAhead; i < std::min(r + kAhead + kRowsAtOnce, count); ++i)
      PrefetchRow(q.Row(first + i, head), q.width);
    ToRowCodes(FourRows(q, head, first + r, first + count), q.width, smooth, format, CodeOffset::kUnsigned, four,
               FourOf(absmax, first + r, first + count));
    for (int i = 0; i < std::min(kRowsAtOnce, count - r); ++i) {
      scales[r + i] = four.scales[i];
      if (!std::isfinite(four.scales[i])) FailAt("q", q, head, first + r + i, 1);
      std::memcpy(codes + (r + i) * stride, four.codes[i], static_cast<size_t>(stride));
    }
  }
}

void PackFourKeys(const HeadsView<const float>& k, int head, int64_t first, Format format, const float* smooth,
                  int8_t* codes, int32_t* offsets, float* scales, const float* absmax) {
  const int groups = static_cast<int>(CeilDiv(k.width, 4)), column = ColumnOfKey(static_cast<int>(first % kTile));
  RowCodes four;
  for (int64_t i = first + kRowsAtOnce; i < std::min(first + 2 * kRowsAtOnce, k.tokens); ++i)
    PrefetchRow(k.Row(i, head), k.width);
  if (first < k.tokens) {
    ToRowCodes(FourRows(k, head, first, k.tokens), k.width, smooth, format, CodeOffset::kNone, four,
               FourOf(absmax, first, k.tokens));
  }
  for (int i = 0; i < kRowsAtOnce; ++i) {
    if (first + i >= k.tokens) {
      std::memset(four.codes[i], 0, sizeof(four.codes[i]));
      four.sums[i] = 0;
      four.scales[i] = 0;
    }
    if (!std::isfinite(four.scales[i])) FailAt("k", k, head, first + i, 1);
    scales[column + i] = four.scales[i];
    offsets[column + i] = -128 * four.sums[i];
  }
  InterleaveRows(four, groups, column, codes);
}

void ValueAbsMax(const HeadsView<const float>& v, int head, int64_t first, int64_t count, const float* smooth,
                 float* out) {
  TARE_CHOSEN(packing::AbsMaxColumns)(v.Row(first, head), v.token_stride, count, v.width, smooth, out);
  for (int i = 0; i < v.width; ++i) {
    if (!std::isfinite(out[i])) FailAt("v", v, head, first, count);
  }
}

void PackValueTile(const HeadsView<const float>& v, int head, int64_t tile, Format format, const float* smooth,
                   const float* absmax, int8_t* codes, int64_t column_tile_bytes, int32_t* sums) {
  const int64_t keys = std::min<int64_t>(kTile, v.tokens - tile * kTile);
  float inv[kLargestWidth];
  for (int64_t i = 0; i < RoundUp(v.width, kTile); ++i) inv[i] = ScaleFor(absmax[i], format).inv;
  for (int64_t key = 0; key < kTile; key += 4) {
    const int64_t token = tile * kTile + key;
    const int rows = static_cast<int>(std::clamp<int64_t>(keys - key, 0, 4));
    TARE_CHOSEN(packing::ValueGroup)
    (rows > 0 ? v.Row(token, head) : nullptr, v.token_stride, rows, v.width, smooth, inv, codes + key * kTile,
     column_tile_bytes, sums);
  }
}

}  // namespace tare
#endif
