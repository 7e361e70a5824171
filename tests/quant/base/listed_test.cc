// SPDX-License-Identifier: Apache-2.0
#include "quant/base/listed.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace tare::listed_test {
namespace {

struct Named {
  std::string_view name;
};
constexpr Named kThree[] = {{"a"}, {"b"}, {"c"}};

TEST(Listed, SeparatesTexts) {
  EXPECT_EQ(Listed(std::vector<std::string>{"a", "", "c"}, ","), "a,,c");
  EXPECT_EQ(Listed(std::vector<std::string>{}, ","), "");
  EXPECT_EQ(Listed(std::map<std::string, int>{{"a", 1}, {"b", 2}} | std::views::keys, " "), "a b");
}

TEST(Listed, TakesTextsFromItems) {
  EXPECT_EQ(Listed(kThree, ", ", &Named::name), "a, b, c");
  EXPECT_EQ(Listed(std::vector{1, 2}, "+", [](int i) { return std::to_string(i); }), "1+2");
}

TEST(Listed, HasAnotherWordBeforeTheLast) {
  EXPECT_EQ(Listed(kThree, ", ", &Named::name, " or "), "a, b or c");
  EXPECT_EQ(Listed(std::span(kThree).first(2), ", ", &Named::name, " or "), "a or b");
  EXPECT_EQ(Listed(std::span(kThree).first(1), ", ", &Named::name, " or "), "a");
}

}  // namespace
}  // namespace tare::listed_test
