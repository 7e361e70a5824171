// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/neighbours.h"

#include <gtest/gtest.h>

namespace tare::neighbours_test {
namespace {

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
}  // namespace tare::neighbours_test
