// SPDX-License-Identifier: Apache-2.0
// On the target that tests are compiled for, by narrow and full vectors; the stages' tests go over all targets.
#include "kernels/elementwise/lanes-inl.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tare::lanes_test {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = HWY_NAMESPACE;

// Every value once and in order, no vector but the last with fewer lanes than there are, none without any.
TEST(ForVectors, CoversARow) {
  const size_t lanes = hwy::HWY_NAMESPACE::Lanes(HWY_NAMESPACE::D());
  for (size_t n = 0; n <= 3 * lanes + 1; ++n) {
    size_t next = 0;
    HWY_NAMESPACE::ForVectors(n, [&](size_t i, size_t count) {
      EXPECT_EQ(i, next);
      EXPECT_GT(count, 0u);
      EXPECT_EQ(count, std::min(lanes, n - i));
      next += count;
    });
    EXPECT_EQ(next, n);
  }
}

TEST(FourRows, ReduceFourIsEachRowsOwn) {
  const hn::ScalableTag<int32_t> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  hn::Vec<decltype(d)> rows[4];
  int32_t total[4] = {}, largest[4];
  for (int r = 0; r < 4; ++r) {
    HWY_ALIGN int32_t values[HWY_MAX_LANES_D(decltype(d))];
    for (int i = 0; i < lanes; ++i) {
      values[i] = (r * 37 + i * 11) % 23 - 11;
      total[r] += values[i];
      largest[r] = i == 0 ? values[i] : std::max(largest[r], values[i]);
    }
    rows[r] = hn::Load(d, values);
  }
  const hn::BlockDFromD<decltype(d)> block;
  HWY_ALIGN int32_t got[4];
  hn::Store(simd::ReduceFour(d, rows[0], rows[1], rows[2], rows[3], simd::Total()), block, got);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(got[r], total[r]) << r;
  hn::Store(simd::ReduceFour(d, rows[0], rows[1], rows[2], rows[3], simd::Largest()), block, got);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(got[r], largest[r]) << r;
}

TEST(FourRows, TransposeFourSwapsRowsAndColumns) {
  const hn::FixedTag<uint32_t, 4> d;
  const auto row = [&](uint32_t r) { return hn::Iota(d, 10 * r); };
  int stored = 0;
  simd::TransposeFour(d, row(0), row(1), row(2), row(3), [&](int i, auto v) {
    HWY_ALIGN uint32_t column[4];
    hn::Store(v, d, column);
    for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(column[r], 10 * r + static_cast<uint32_t>(i));
    ++stored;
  });
  EXPECT_EQ(stored, 4);
}

TEST(FourRows, VisibleIsFromBeginToBeforeEnd) {
  struct {
    int32_t begin[3] = {0, 3, 7}, end[3] = {0, 9, 8};
  } tile;
  const hn::ScalableTag<float> d;
  for (int row = 0; row < 3; ++row) {
    for (int first = 0; first < 64; first += static_cast<int>(hn::Lanes(d))) {
      HWY_ALIGN float lanes[HWY_MAX_LANES_D(decltype(d))];
      hn::Store(hn::IfThenElseZero(simd::Visible(d, tile, row, hn::Iota(hn::RebindToSigned<decltype(d)>(), first)),
                                   hn::Set(d, 1.0f)),
                d, lanes);
      for (int i = 0; i < static_cast<int>(hn::Lanes(d)); ++i)
        EXPECT_EQ(lanes[i] == 1.0f, first + i >= tile.begin[row] && first + i < tile.end[row]);
    }
  }
}

// Values of which another order has other bits: 2^24 + 1 is not a float.
template <int kCapped>
float SumInVectorsOf() {
  using D = hn::CappedTag<float, kCapped>;
  constexpr D d;
  constexpr int kLanes = HWY_MAX_LANES_D(D);
  HWY_ALIGN float x[16] = {0x1p24f, 1, 0, 0, 1, 0, 0, 0, -0x1p24f, 1, 0, 0, 1, 0, 0, 0x1p-3f};
  hn::Vec<D> vectors[16 / kLanes];
  for (int i = 0; i < 16 / kLanes; ++i) vectors[i] = hn::Load(d, x + i * kLanes);
  return HWY_NAMESPACE::SumOfSixteen(d, vectors);
}

TEST(OrderedSum, DoesNotDependOnTheWidthOfVectors) {
  // 0 2 0 0, 2 0 0 1/8; 2 2 0 1/8; 2 2 + 1/8
  EXPECT_EQ(SumInVectorsOf<16>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<4>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<2>(), 4.125f);
  EXPECT_EQ(SumInVectorsOf<1>(), 4.125f);
}

}  // namespace
}  // namespace tare::lanes_test
