// SPDX-License-Identifier: Apache-2.0
// See row_codes.h. stages.cc compiles this file, once for each instruction set.
#include "kernels/attention/integer/row_codes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quant/base/integers.h"
#include "quant/format/round.h"

#include "hwy/highway.h"
#include "kernels/attention/tile_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::row_codes {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);
constexpr int kStep = 4 * kLanes;

// How a row is read: whole vectors, or with a tail and a vector to subtract; zeros after the last.
struct Whole {
  HWY_INLINE VF operator()(const float* x, int i) const { return hn::LoadU(DF(), x + i); }
};

struct Careful {
  int width;
  const float* minus;
  HWY_INLINE VF operator()(const float* x, int i) const {
    const DF d;
    const size_t count = static_cast<size_t>(std::clamp(width - i, 0, kLanes));
    const VF value = hn::LoadN(d, x + i, count);
    return minus == nullptr ? value : hn::Sub(value, hn::LoadN(d, minus + i, count));
  }
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
                         int offset, RowCodes& out) {
  const DI di;
  const hn::BlockDFromD<DI> four;
  VI lanes[4];
  for (int r = 0; r < 4; ++r) lanes[r] = Magnitudes(rows[r], width, load);
  HWY_ALIGN int32_t largest[4];
  hn::Store(ReduceFour(di, lanes[0], lanes[1], lanes[2], lanes[3], Largest()), four, largest);
  const float magic = kToNearest + static_cast<float>(offset);
  for (int r = 0; r < 4; ++r) {
    const float absmax = std::bit_cast<float>(largest[r]);
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
                 int offset, RowCodes& out) {
  if (minus == nullptr && width % 64 == 0) return FourRows(rows, width, Whole(), format, offset, out);
  FourRows(rows, width, Careful{width, minus}, format, offset, out);
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

}  // namespace HWY_NAMESPACE::row_codes
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT_T(RowsToCodes, row_codes::RowsToCodes);
HWY_EXPORT_T(Interleave, row_codes::Interleave);

void ToRowCodes(const std::array<const float*, kRowsAtOnce>& rows, int width, const float* minus, Format format,
                CodeOffset offset, RowCodes& out) {
  HWY_DYNAMIC_DISPATCH(RowsToCodes)(rows, width, minus, format, static_cast<int>(offset), out);
}

void InterleaveRows(const RowCodes& rows, int groups, int first, int8_t* tile) {
  HWY_DYNAMIC_DISPATCH(Interleave)(rows, groups, first, tile);
}

}  // namespace tare
#endif
