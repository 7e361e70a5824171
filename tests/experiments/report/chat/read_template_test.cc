// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/chat/read_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::read_template_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Written(const std::string& source, const Json& names = Json::object()) {
  return ReadChatTemplate(source, "t")(names, "t");
}

std::string MessageOf(const std::string& source) {
  try {
    return "made " + Written(source);
  } catch (const Error& error) {
    return error.what();
  }
}

// tests/data/chat: what jinja2 makes of them in transformers' environment, or nothing where it refuses.
TEST(ReadTemplateTest, TemplatesOfFamiliesAreAsInTransformers) {
  const std::string path = std::string(TARE_SOURCE_DIR) + "/tests/data/chat/templates.json";
  size_t cases = 0;
  for (const Json& family : ParseOrderedJson(GetFile(path), path)) {
    for (const Json& one : family["cases"]) {
      const Json names{{"messages", one["messages"]}, {"tools", one["tools"]},
                       {"documents", nullptr},        {"add_generation_prompt", one["prompt"]},
                       {"bos_token", "<s>"},          {"eos_token", "</s>"}};
      ++cases;
      if (one["text"].is_null()) {
        EXPECT_THROW((void)Written(family["template"], names), Error) << family["family"];
      } else {
        EXPECT_EQ(Written(family["template"], names), one["text"].get<std::string>()) << family["family"];
      }
    }
  }
  EXPECT_EQ(cases, 78u);
}

TEST(ReadTemplateTest, WhatItDoesNotKnowIsNamedWithItsLine) {
  EXPECT_THAT(MessageOf("\n{% include 'x' %}"), StartsWith("t: line 2: got '{% include', expected if, for, set, "));
  EXPECT_THAT(MessageOf("\n\n{{ x | shuffle }}"), StartsWith("t: line 3: got the filter 'shuffle', expected one of "));
  EXPECT_THAT(MessageOf("{{ 'a'.zfill(3) }}"), StartsWith("t: line 1: got the method 'zfill', expected one of "));
  EXPECT_THAT(MessageOf("{{ 1 is prime }}"), StartsWith("t: line 1: got the test 'prime', expected one of "));
  EXPECT_THAT(MessageOf("{{ strftime_now('%Y') }}"), StartsWith("t: line 1: got the function 'strftime_now'"));
  EXPECT_EQ(Written("{% if false %}{{ x | shuffle }}{% endif %}a"), "a") << "what does not run may be unknown";
  EXPECT_EQ(Written("{{ 'a.b.a.b'.replace('a', 'c', 1) }} {{ 'aa' | replace('a', 'b') }}"), "c.b.a.b bb");
}

TEST(ReadTemplateTest, WrongTypesAreRefused) {
  EXPECT_EQ(MessageOf("{{ a.b }}"), "t: line 1: got b of what is undefined, expected a value");
  EXPECT_EQ(MessageOf("{{ 'a' + none }}"), "t: line 1: got a string, expected a whole number");
  EXPECT_EQ(MessageOf("{{ [1] }}"), "t: line 1: got a list, expected a text; try |tojson");
  EXPECT_EQ(MessageOf("{% set x.y = 1 %}"), "t: line 1: got undefined, expected a namespace for x.y");
  EXPECT_EQ(MessageOf("{{ raise_exception('no tools') }}"), "t: line 1: the template refuses: no tools");
  EXPECT_THAT(MessageOf("{% if a"), HasSubstr("expected a word or %}"));
  EXPECT_THAT(MessageOf("{% if a %}"), HasSubstr("expected {% endif %}"));
}

TEST(ReadTemplateTest, HostileTemplatesMeetABound) {
  EXPECT_THAT(MessageOf("{% for i in range(10000000000) %}{% endfor %}"), StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(MessageOf("{% set n = range(30000) %}{% for i in n %}{% for j in n %}{% endfor %}{% endfor %}"),
              StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(
      MessageOf("{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(16) %}{% set ns.x = ns.x ~ ns.x "
                "%}{% endfor %}{% for i in range(100000) %}{% set y = ns.x | length %}{% endfor %}"),
      StartsWith("t: got no end after 2000 steps"));
  EXPECT_THAT(MessageOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), StartsWith("t: InternalError: "));
  EXPECT_THAT(MessageOf("{% set ns = namespace(x='0123456789') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x ~ "
                        "'a' %}{% endfor %}{{ ns.x | length }}"),
              StartsWith("t: InternalError: "));
  EXPECT_THAT(MessageOf("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
              HasSubstr("expected at most 50 levels"));
}

}  // namespace
}  // namespace tare::read_template_test
