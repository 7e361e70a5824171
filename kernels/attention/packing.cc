// SPDX-License-Identifier: Apache-2.0
// See packing.h.
#include "kernels/attention/packing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/error.h"
#include "quant/format/round.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/packing.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);

// Values i onwards of `count`; zeros behind the last.
HWY_INLINE VF LoadSome(const float* x, int i, int count) {
  const DF d;
  return i + kLanes <= count ? hn::LoadU(d, x + i) : hn::LoadN(d, x + i, static_cast<size_t>(std::max(0, count - i)));
}

HWY_INLINE VF LoadMinus(const float* x, const float* minus, int i, int count) {
  return minus == nullptr ? LoadSome(x, i, count) : hn::Sub(LoadSome(x, i, count), LoadSome(minus, i, count));
}

// Magnitudes compare as integers, NaN above all: the result is finite only if all are.
HWY_INLINE float RowAbsMax(const float* x, const float* minus, int count) {
  const DI di;
  VI largest = hn::Zero(di);
  for (int i = 0; i < count; i += kLanes)
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(LoadMinus(x, minus, i, count))));
  const int32_t bits = hn::ReduceMax(di, largest);
  float absmax;
  std::memcpy(&absmax, &bits, 4);
  return absmax;
}

HWY_INLINE VI CodesOf(VF x, VF inv) { return hn::NearestInt(hn::Mul(x, inv)); }

// Codes of a row as bytes into out [RoundUp(count, 64)], zeros behind the last; returns their sum.
HWY_INLINE int32_t RowCodes(const float* x, const float* minus, int count, float inv, int8_t* out) {
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  const VF factor = hn::Set(DF(), inv);
  VI sum = hn::Zero(di);
  for (int i = 0; i < count; i += kLanes) {
    const VI codes = CodesOf(LoadMinus(x, minus, i, count), factor);
    sum = hn::Add(sum, codes);
    hn::StoreU(hn::DemoteTo(d8, codes), d8, out + i);
  }
  return hn::ReduceSum(di, sum);
}

float RowToCodes(const float* x, const float* minus, int count, Format format, int8_t* out, int32_t* sum) {
  const float absmax = RowAbsMax(x, minus, count);
  if (!(absmax <= std::numeric_limits<float>::max())) return absmax;
  const Scale scale = ScaleFor(absmax, format);
  *sum = RowCodes(x, minus, count, scale.inv, out);
  return scale.scale;
}

void AbsMaxColumns(const float* x, int64_t stride, int64_t rows, int width, const float* minus, float* out) {
  const DF d;
  const DI di;
  for (int i = 0; i < RoundUp(width, kTile); i += kLanes) {
    VI largest = hn::Zero(di);
    for (int64_t r = 0; r < rows; ++r)
      largest = hn::Max(largest, hn::BitCast(di, hn::Abs(LoadMinus(x + r * stride, minus, i, width))));
    hn::StoreU(hn::BitCast(d, largest), d, out + i);
  }
}

// 4 keys x width columns; rows beyond `rows` count as zeros.
void ValueGroup(const float* x, int64_t stride, int rows, int width, const float* minus, const float* inv,
                int8_t* codes, int64_t column_tile_bytes, int32_t* sums) {
  const DF d;
  const DI di;
  const VI byte = hn::Set(di, 255);
  for (int i = 0; i < RoundUp(width, kTile); i += kLanes) {
    const VF factor = hn::LoadU(d, inv + i);
    VI sum = hn::LoadU(di, sums + i);
    VI packed = hn::Zero(di);
    for (int r = 0; r < rows; ++r) {
      const VI code = CodesOf(LoadMinus(x + r * stride, minus, i, width), factor);
      sum = hn::Add(sum, code);
      packed = hn::Or(packed, hn::ShiftLeftSame(hn::And(code, byte), 8 * r));
    }
    hn::StoreU(sum, di, sums + i);
    int8_t* at = codes + i / kTile * column_tile_bytes + i % kTile * 4;
    hn::StoreU(packed, di, reinterpret_cast<int32_t*>(at));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {
namespace {

HWY_EXPORT(RowToCodes);
HWY_EXPORT(AbsMaxColumns);
HWY_EXPORT(ValueGroup);

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

// A row's codes, and room for what a vector writes behind the last.
struct RowBuffer {
  alignas(64) int8_t codes[kLargestWidth + kTile] = {};
};

}  // namespace

void PackQueries(const HeadsView<const float>& q, int head, int64_t first, int count, Format format, uint8_t* codes,
                 float* scales) {
  const int64_t stride = RoundUp(q.width, 4);
  RowBuffer row;
  for (int r = 0; r < count; ++r) {
    int32_t sum = 0;
    scales[r] = HWY_DYNAMIC_DISPATCH(RowToCodes)(q.Row(first + r, head), nullptr, q.width, format, row.codes, &sum);
    if (!IsFinite(scales[r])) FailAt("q", q, head, first + r, 1);
    for (int64_t i = 0; i < stride; ++i) codes[r * stride + i] = static_cast<uint8_t>(row.codes[i] ^ 0x80);
  }
}

void PackKeyTile(const HeadsView<const float>& k, int head, int64_t tile, Format format, const float* smooth,
                 int8_t* codes, int32_t* offsets, float* scales) {
  const int64_t groups = RoundUp(k.width, 4) / 4;
  const int64_t keys = std::min<int64_t>(kTile, k.tokens - tile * kTile);
  if (keys < kTile) std::fill_n(codes, groups * 4 * kTile, int8_t{0});
  RowBuffer row;
  for (int64_t key = 0; key < kTile; ++key) {
    offsets[key] = 0;
    scales[key] = 0;
    if (key >= keys) continue;
    const int64_t token = tile * kTile + key;
    int32_t sum = 0;
    scales[key] = HWY_DYNAMIC_DISPATCH(RowToCodes)(k.Row(token, head), smooth, k.width, format, row.codes, &sum);
    if (!IsFinite(scales[key])) FailAt("k", k, head, token, 1);
    offsets[key] = -128 * sum;
    for (int64_t g = 0; g < groups; ++g) std::memcpy(codes + (g * kTile + key) * 4, row.codes + 4 * g, 4);
  }
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
    HWY_DYNAMIC_DISPATCH(ValueGroup)(rows > 0 ? v.Row(token, head) : nullptr, v.token_stride, rows, v.width, smooth,
                                     inv, codes + key * kTile, column_tile_bytes, sums);
  }
}

}  // namespace tare
#endif
