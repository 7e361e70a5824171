// SPDX-License-Identifier: Apache-2.0
// The orders are those that two packs within 128 bits make, done here one value at a time.
#include "kernels/attention/tile_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace tare::tile_order_test {
namespace {

using Lanes = std::vector<int>;

// Every four (eight) values of a, then as many of b.
Lanes Packed(const Lanes& a, const Lanes& b, size_t block) {
  Lanes packed;
  for (size_t i = 0; i < a.size(); i += block) {
    packed.insert(packed.end(), a.begin() + i, a.begin() + i + block);
    packed.insert(packed.end(), b.begin() + i, b.begin() + i + block);
  }
  return packed;
}

TEST(TileOrder, TwoPacksPutTheKeysInOrder) {
  Lanes columns[4];
  for (int column = 0; column < 64; ++column) columns[column / 16].push_back(KeyOfColumn(column));
  const Lanes low = Packed(columns[0], columns[1], 4), high = Packed(columns[2], columns[3], 4);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(KeyOfExp(i), i < 32 ? low[i] : high[i - 32]) << i;
  const Lanes keys = Packed(low, high, 8);
  for (int key = 0; key < 64; ++key) EXPECT_EQ(keys[key], key);
}

TEST(TileOrder, BothWaysAndInTables) {
  for (int key = 0; key < 64; ++key) {
    EXPECT_EQ(KeyOfColumn(ColumnOfKey(key)), key);
    EXPECT_EQ(KeyOfExp(ExpOfKey(key)), key);
    EXPECT_EQ(ColumnOfKey(key), ColumnOfKey(key / 4 * 4) + key % 4);
    EXPECT_EQ(kColumnKeys[static_cast<size_t>(ColumnOfKey(key))], key);
    EXPECT_EQ(kExpKeys[static_cast<size_t>(ExpOfKey(key))], key);
  }
}

}  // namespace
}  // namespace tare::tile_order_test
