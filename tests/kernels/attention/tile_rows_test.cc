// SPDX-License-Identifier: Apache-2.0
// On the target that tests are compiled for, by narrow and full vectors; the stages' tests go over all targets.
#include "kernels/attention/tile_rows-inl.h"

#include <gtest/gtest.h>

namespace tare::tile_rows_test {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = HWY_NAMESPACE;

TEST(TileRows, ReduceFourIsEachRowsOwn) {
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

TEST(TileRows, TransposeFourSwapsRowsAndColumns) {
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

TEST(TileRows, VisibleIsFromBeginToBeforeEnd) {
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

}  // namespace
}  // namespace tare::tile_rows_test
