// SPDX-License-Identifier: Apache-2.0
// Shared by sources that Highway compiles for each instruction set: a processor's function, full vectors and loops over
// rows of f32, vectors of up to 16 lanes, look-ups, four vectors reduced or transposed together, sums in one order.
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

// The `function` of HWY_NAMESPACE for this processor: Highway's table of all targets', and the choice from it.
#ifndef TARE_CHOSEN
#define TARE_CHOSEN(function)              \
  [] {                                     \
    HWY_EXPORT_T(Chosen, function);        \
    return HWY_DYNAMIC_DISPATCH_T(Chosen); \
  }()
#endif

#if defined(TARE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TARE_LANES_INL_H_
#undef TARE_LANES_INL_H_
#else
#define TARE_LANES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kLanes = HWY_MAX_LANES_D(DF);

// Whole vectors first, then the tail with fewer lanes: calls body(index of the first value, lanes).
template <typename Body>
HWY_INLINE void ForVectors(size_t n, Body body) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, lanes);
  if (i < n) body(i, n - i);
}

// y = of(x...), value by value.
template <class Of, class... X>
HWY_INLINE void Map(size_t n, float* y, Of of, const X*... x) {
  ForVectors(
      n, [&](size_t i, size_t count) HWY_ATTR { hn::StoreN(of(hn::LoadN(D(), x + i, count)...), D(), y + i, count); });
}

// list[index] of each lane; list [16], aligned to 64 bytes, indices below 16.
HWY_INLINE VF Look(const float* list, VI index) {
  const DF d;
  if constexpr (kLanes == 16) return hn::TableLookupLanes(hn::Load(d, list), hn::IndicesFromVec(d, index));
  if constexpr (kLanes == 8)
    return hn::TwoTablesLookupLanes(d, hn::Load(d, list), hn::Load(d, list + 8), hn::IndicesFromVec(d, index));
  return hn::GatherIndex(d, list, index);
}

// Largest |x|, infinity for NaN and infinities (magnitudes compare as integers). Four accumulators: maxima take cycles.
HWY_INLINE float AbsMaxRow(const float* x, size_t n) {
  const D d;
  const hn::RebindToSigned<D> di;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(di)> largest[4] = {hn::Zero(di), hn::Zero(di), hn::Zero(di), hn::Zero(di)};
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (size_t j = 0; j < 4; ++j)
      largest[j] = hn::Max(largest[j], hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i + j * lanes))));
  }
  ForVectors(n - i, [&](size_t j, size_t count) HWY_ATTR {
    largest[0] = hn::Max(largest[0], hn::BitCast(di, hn::Abs(hn::LoadN(d, x + i + j, count))));
  });
  const auto all = hn::Max(hn::Max(largest[0], largest[1]), hn::Max(largest[2], largest[3]));
  const float found = hwy::BitCastScalar<float>(hn::ReduceMax(di, all));
  return found <= std::numeric_limits<float>::max() ? found : std::numeric_limits<float>::infinity();
}

// Which of these keys of a tile its row sees: begin[row] .. end[row] - 1. d: tag of 32-bit lanes.
template <class D, class Tile, class V>
HWY_INLINE auto Visible(D d, const Tile& tile, int row, V key) {
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d, hn::And(hn::Ge(key, hn::Set(di, tile.begin[row])), hn::Lt(key, hn::Set(di, tile.end[row]))));
}

struct Largest {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

struct Total {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

template <class D, class V, class Op>
HWY_INLINE auto FoldBlocks(D, V v, Op op) {
  if constexpr (HWY_MAX_LANES_D(D) <= 4) {
    return v;
  } else {
    constexpr hn::Half<D> half;
    return FoldBlocks(half, op(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), op);
  }
}

// {op over a's lanes, over b's, over c's, over e's} in a vector of 4. Two rounds of interleaving inside blocks of 128
// bits, then the blocks by halves: 3 instructions per row of 512 bits instead of 8 for a row by itself.
template <class D, class V, class Op>
HWY_INLINE auto ReduceFour(D d, V a, V b, V c, V e, Op op) {
  const hn::RepartitionToWide<D> wide;
  const auto ab = hn::BitCast(wide, op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(wide, op(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return FoldBlocks(
      d, op(hn::BitCast(d, hn::InterleaveLower(wide, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(wide, ab, ce))), op);
}

// Calls store(i, {a[i], b[i], c[i], e[i]}) for i of 0 to 3; d: tag of four 32-bit lanes.
template <class D, class V, class Store>
HWY_INLINE void TransposeFour(D d, V a, V b, V c, V e, Store store) {
  const hn::RepartitionToWide<D> wide;
  const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  store(0, hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ce_low)));
  store(1, hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ce_low)));
  store(2, hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ce_high)));
  store(3, hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ce_high)));
}

// The sum of 16 floats in one order, whatever the vectors' width: x[j] and x[j + 8], of these sums j and j + 4, then
// j + 2, then j + 1. So a sum that is kept in 16 parts has the same bits on every instruction set. It adds one vector:
template <class D, class V = hn::Vec<D>>
HWY_INLINE float SumByHalves(D, V x) {
  if constexpr (HWY_MAX_LANES_D(D) == 1) {
    return hn::GetLane(x);
  } else {
    const hn::Half<D> half;
    return SumByHalves(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

// As SumByHalves, for 16 values in x [16 / lanes] vectors, which it overwrites.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float SumOfSixteen(D d, V* x) {
  for (int n = 16 / HWY_MAX_LANES_D(D) / 2; n > 0; n /= 2) {
    for (int j = 0; j < n; ++j) x[j] = hn::Add(x[j], x[j + n]);
  }
  return SumByHalves(d, x[0]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#endif
