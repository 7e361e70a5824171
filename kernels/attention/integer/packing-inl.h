// SPDX-License-Identifier: Apache-2.0
// See packing.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/attention/integer/packing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "hwy/cache_control.h"
#include "kernels/attention/tile_order.h"
#include "quant/base/error.h"
#include "quant/base/integers.h"
#include "quant/format/round.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::packing {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);

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

}  // namespace HWY_NAMESPACE::packing
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {
namespace {

HWY_EXPORT_T(AbsMaxColumns, packing::AbsMaxColumns);
HWY_EXPORT_T(ValueGroup, packing::ValueGroup);

bool IsFinite(float x) { return x <= std::numeric_limits<float>::max(); }

[[noreturn]] void FailAt(const char* name, const HeadsView<const float>& x, int head, int64_t first, int64_t count) {
  for (int64_t t = first; t < first + count; ++t) {
    for (int i = 0; i < x.width; ++i) {
      const float value = x.Row(t, head)[i];
      if (!std::isfinite(value))
        Fail("attention {}: got {} at token {}, head {}, channel {}, expected finite values", name, value, t, head, i);
    }
  }
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

}  // namespace

void PackQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format,
                 const float* smooth, uint8_t* codes, float* scales) {
  constexpr int kAhead = 8;
  const int64_t stride = RoundUp(q.width, 4);
  RowCodes four;
  for (int r = 0; r < count; r += kRowsAtOnce) {
    for (int i = r + kAhead; i < std::min(r + kAhead + kRowsAtOnce, count); ++i)
      PrefetchRow(q.Row(first + i, head), q.width);
    ToRowCodes(FourRows(q, head, first + r, first + count), q.width, smooth, format, CodeOffset::kUnsigned, four);
    for (int i = 0; i < std::min(kRowsAtOnce, count - r); ++i) {
      scales[r + i] = four.scales[i];
      if (!IsFinite(four.scales[i])) FailAt("q", q, head, first + r + i, 1);
      std::memcpy(codes + (r + i) * stride, four.codes[i], static_cast<size_t>(stride));
    }
  }
}

void PackFourKeys(const HeadsView<const float>& k, int head, int64_t first, Format format, const float* smooth,
                  int8_t* codes, int32_t* offsets, float* scales) {
  const int groups = static_cast<int>(CeilDiv(k.width, 4)), column = ColumnOfKey(static_cast<int>(first % kTile));
  RowCodes four;
  if (first < k.tokens) {
    ToRowCodes(FourRows(k, head, first, k.tokens), k.width, smooth, format, CodeOffset::kNone, four);
  }
  for (int i = 0; i < kRowsAtOnce; ++i) {
    if (first + i >= k.tokens) {
      std::memset(four.codes[i], 0, sizeof(four.codes[i]));
      four.sums[i] = 0;
      four.scales[i] = 0;
    }
    if (!IsFinite(four.scales[i])) FailAt("k", k, head, first + i, 1);
    scales[column + i] = four.scales[i];
    offsets[column + i] = -128 * four.sums[i];
  }
  InterleaveRows(four, groups, column, codes);
}

void ValueAbsMax(const HeadsView<const float>& v, int head, int64_t first, int64_t count, const float* smooth,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(AbsMaxColumns)(v.Row(first, head), v.token_stride, count, v.width, smooth, out);
  for (int i = 0; i < v.width; ++i) {
    if (!IsFinite(out[i])) FailAt("v", v, head, first, count);
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
    HWY_DYNAMIC_DISPATCH(ValueGroup)
    (rows > 0 ? v.Row(token, head) : nullptr, v.token_stride, rows, v.width, smooth, inv, codes + key * kTile,
     column_tile_bytes, sums);
  }
}

}  // namespace tare
#endif
