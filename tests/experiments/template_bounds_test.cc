// SPDX-License-Identifier: Apache-2.0
// In the released build alone: the interpreter's twenty million turns take 40 s under the address sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/report/drawing/interpreter.h"
#include "quant/base/message.h"

namespace tare::template_bounds_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string BoundOf(const std::string& source) {
  try {
    return "made " + ReadChatTemplate(source, "t")(nlohmann::ordered_json::object(), "t");
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(TemplateBoundsTest, HostileTemplatesMeetThem) {
  EXPECT_THAT(BoundOf("{% for i in range(10000000000) %}{% endfor %}"), StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(BoundOf("{% set n = range(30000) %}{% for i in n %}{% for j in n %}{% endfor %}{% endfor %}"),
              StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(BoundOf("{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(16) %}{% set ns.x = ns.x ~ ns.x "
                      "%}{% endfor %}{% for i in range(100000) %}{% set y = ns.x | length %}{% endfor %}"),
              StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(BoundOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), StartsWith("t: InternalError: "));
  EXPECT_THAT(BoundOf("{% set ns = namespace(x='0123456789') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x ~ "
                      "'a' %}{% endfor %}{{ ns.x | length }}"),
              StartsWith("t: InternalError: "));
  EXPECT_THAT(BoundOf("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("expected at most 50 levels"));
}

}  // namespace
}  // namespace tare::template_bounds_test
