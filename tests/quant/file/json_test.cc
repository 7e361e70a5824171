// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json.h"

#include <gtest/gtest.h>

namespace tare::json_test {
namespace {

// What json.cc compiles is whole: values are made, changed, compared and written by it, in the order of each kind of
// object.
TEST(Json, MembersAreCompiledOnce) {
  nlohmann::json sorted = {{"b", 1.5}, {"a", {1, true, nullptr}}};
  nlohmann::ordered_json ordered = {{"b", 1.5}, {"a", {1, true, nullptr}}};
  EXPECT_EQ(sorted.dump(), R"({"a":[1,true,null],"b":1.5})");
  EXPECT_EQ(ordered.dump(), R"({"b":1.5,"a":[1,true,null]})");
  ordered["a"].push_back("text");
  ordered.erase("b");
  EXPECT_EQ(ordered, (nlohmann::ordered_json{{"a", {1, true, nullptr, "text"}}}));
}

}  // namespace
}  // namespace tare::json_test
