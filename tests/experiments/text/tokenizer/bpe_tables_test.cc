// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/bpe_tables.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace tare::bpe_tables_test {
namespace {

using pipeline::Merge;
using pipeline::MergeTable;

TEST(MergeTable, HasNothingAtFirst) {
  EXPECT_EQ(MergeTable().Find(0, 0), nullptr);
  EXPECT_EQ(MergeTable(0).Find(0, 0), nullptr);
}

// Full, with pairs that share a side, against a map.
TEST(MergeTable, EveryPairAndNoOther) {
  std::mt19937 random(3);
  constexpr int32_t kIds = 60, kMerges = 2000;
  MergeTable table(kMerges);
  std::map<std::pair<int32_t, int32_t>, int32_t> expected;
  for (int32_t rank = 0; rank < kMerges; ++rank) {
    const auto left = static_cast<int32_t>(random() % kIds), right = static_cast<int32_t>(random() % kIds);
    table.Set(left, right, {rank, rank + 1});
    expected[{left, right}] = rank;  // the last counts
  }
  for (int32_t left = 0; left < kIds; ++left) {
    for (int32_t right = 0; right < kIds; ++right) {
      const auto found = expected.find({left, right});
      const Merge* const merge = table.Find(left, right);
      ASSERT_EQ(merge != nullptr, found != expected.end());
      if (merge == nullptr) continue;
      EXPECT_EQ(merge->rank, found->second);
      EXPECT_EQ(merge->id, found->second + 1);
    }
  }
}

TEST(Neighbours, SmallAndLargeCharactersInTheirOrder) {
  pipeline::Neighbours neighbours;
  neighbours.Add('a', 'b');
  neighbours.Add(255, 0);
  neighbours.Add('a', 0x162);  // 'b' and a higher byte
  neighbours.Add(0x10ffff, 'a');
  EXPECT_TRUE(neighbours.Has('a', 'b') && neighbours.Has(255, 0));
  EXPECT_TRUE(neighbours.Has('a', 0x162) && neighbours.Has(0x10ffff, 'a'));
  EXPECT_FALSE(neighbours.Has('b', 'a') || neighbours.Has(0, 255));
  EXPECT_FALSE(neighbours.Has(0x162, 'a') || neighbours.Has('a', 0x10ffff) || neighbours.Has('a', 0x161));
}

}  // namespace
}  // namespace tare::bpe_tables_test
