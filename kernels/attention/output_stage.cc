// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/output_stage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/output_stage.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

constexpr int kVectors = kTile / kLanes;

// Sums less what a row's zero point adds to them.
class WithZeroPoints {
 public:
  HWY_INLINE explicit WithZeroPoints(const OutputTile& t) : zeros_(t.zeros) {
    for (int i = 0; i < kVectors; ++i) v_sums_[i] = hn::ConvertTo(DF(), hn::Load(DI(), t.v_sums + i * kLanes));
  }
  HWY_INLINE VF operator()(VF sum, int r, int i) const {
    return hn::NegMulAdd(hn::Set(DF(), static_cast<float>(zeros_[r])), v_sums_[i], sum);
  }

 private:
  const int32_t* zeros_;
  VF v_sums_[kVectors];
};

struct NoZeroPoints {
  HWY_INLINE VF operator()(VF sum, int /*r*/, int /*i*/) const { return sum; }
};

template <class Zeros, class Accumulate>
HWY_INLINE void Rows(const OutputTile& t, Zeros less, Accumulate accumulate) {
  const DF d;
  VF scales[kVectors];
  for (int i = 0; i < kVectors; ++i) scales[i] = hn::Load(d, t.v_scales + i * kLanes);
  for (int r = 0; r < t.rows; ++r) {
    const VF row_scale = hn::Set(d, t.row_scales[r]);
    for (int i = 0; i < kVectors; ++i) {
      const int at = r * kTile + i * kLanes;
      const VF sum = less(hn::ConvertTo(d, hn::Load(DI(), t.sums + at)), r, i);
      accumulate(sum, hn::Mul(scales[i], row_scale), t.out + at);
    }
  }
}

template <class Accumulate>
HWY_INLINE void AllRows(const OutputTile& tile, Accumulate accumulate) {
  if (tile.zeros == nullptr)
    Rows(tile, NoZeroPoints(), accumulate);
  else
    Rows(tile, WithZeroPoints(tile), accumulate);
}

void AddRows(const OutputTile& tile) {
  AllRows(tile, [](VF sum, VF scale, float* out) HWY_ATTR {
    const DF d;
    hn::Store(hn::MulAdd(sum, scale, hn::Load(d, out)), d, out);
  });
}

void OverwriteRows(const OutputTile& tile) {
  AllRows(tile, [](VF sum, VF scale, float* out) HWY_ATTR { hn::Store(hn::Mul(sum, scale), DF(), out); });
}

HWY_INLINE bool InWholeLines(const OutputRows& o) {
  constexpr int kLine = 64 / sizeof(float);
  return o.width % kLine == 0 && o.to_stride % kLine == 0 && reinterpret_cast<uintptr_t>(o.to) % 64 == 0;
}

// finish(row, i): the vector from column i on.
template <class Finish>
HWY_INLINE void EachLine(const OutputRows& o, Finish finish) {
  for (int r = 0; r < o.rows; ++r)
    for (int i = 0; i < o.width; i += kLanes) hn::Stream(finish(r, i), DF(), o.to + r * o.to_stride + i);
}

template <class Finish>
HWY_INLINE void EachVector(const OutputRows& o, Finish finish) {
  const DF d;
  if (o.store == OutputStore::kPastCaches && InWholeLines(o)) return EachLine(o, finish);
  for (int r = 0; r < o.rows; ++r) {
    float* to = o.to + r * o.to_stride;
    int i = 0;
    for (; i + kLanes <= o.width; i += kLanes) hn::StoreU(finish(r, i), d, to + i);
    if (i < o.width) hn::StoreN(finish(r, i), d, to + i, static_cast<size_t>(o.width - i));
  }
}

void WriteRows(const OutputRows& o) {
  const DF d;
  const auto both = [&](int r, int i) HWY_ATTR {
    const auto one = hn::Mul(hn::Load(d, o.out1 + r * o.stride + i), hn::Set(d, o.factors1[r]));
    if (o.out2 == nullptr) return one;
    return hn::NegMulAdd(hn::Load(d, o.out2 + r * o.stride + i), hn::Set(d, o.factors2[r]), one);
  };
  if (o.mean == nullptr) return EachVector(o, both);
  EachVector(o, [&](int r, int i) HWY_ATTR {
    const auto mean = hn::LoadN(d, o.mean + i, static_cast<size_t>(o.width - i));
    return hn::MulAdd(mean, hn::Set(d, o.mean_factors[r]), both(r, i));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void AddOutput(const OutputTile& tile) { TARE_CHOSEN(AddRows)(tile); }
void OverwriteOutput(const OutputTile& tile) { TARE_CHOSEN(OverwriteRows)(tile); }
void WriteOutput(const OutputRows& rows) { TARE_CHOSEN(WriteRows)(rows); }
void FlushOutput() { hwy::FlushStream(); }

}  // namespace tare
#endif
