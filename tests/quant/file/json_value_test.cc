// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json_value.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(JsonValue, IsNullForWhatIsNoNumber) {
  EXPECT_EQ(NumberOrNull(1.5).dump(), "1.5");
  for (const double none : {NAN, INFINITY, -INFINITY}) EXPECT_TRUE(NumberOrNull(none).is_null());
}

TEST(JsonValue, KeepsTheOrderOfItsMembers) { EXPECT_EQ((Json{{"b", 1}, {"a", 2}}).dump(), R"({"b":1,"a":2})"); }

}  // namespace
}  // namespace tare
