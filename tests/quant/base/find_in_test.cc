// SPDX-License-Identifier: Apache-2.0
#include "quant/base/find_in.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

namespace tare::find_in_test {
namespace {

TEST(FindIn, GivesAMapsValue) {
  std::map<int, char> map{{1, 'a'}};
  *FindIn(map, 1) = 'b';
  EXPECT_EQ(map.at(1), 'b');
  EXPECT_EQ(FindIn(map, 2), nullptr);
}

TEST(FindIn, GivesAnElementOfAList) {
  struct Named {
    std::string_view name;
    int number;
  };
  static constexpr Named kList[]{{"a", 1}, {"b", 2}};
  EXPECT_EQ(FindIn(kList, "b", &Named::name)->number, 2);
  EXPECT_EQ(FindIn(kList, "c", &Named::name), nullptr);
}

}  // namespace
}  // namespace tare::find_in_test
