// SPDX-License-Identifier: Apache-2.0
// Matches as Python's re module does; the cases below were run through it.
#include "quant/interchange/folders/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::name_pattern_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

bool Starts(std::string_view pattern, std::string_view name) { return NamePattern(pattern, "p").MatchesStart(name); }
bool Somewhere(std::string_view pattern, std::string_view name) {
  return NamePattern(pattern, "p").MatchesSomewhere(name);
}

TEST(NamePattern, MatchesAsPythonDoes) {
  constexpr std::string_view kName = "model.layers.12.mlp.down_proj";
  for (const char* pattern :
       {"", "model", ".*down_proj", R"(model\.layers\.\d+\.mlp\..*)", R"(.*\.(up|down)_proj$)", "(?:model.)?layers|m",
        "[a-z]+", R"(.*\.1[0-5]\..*)", "^model.*", ".{6}layers", ".{2,}?\\.", "(?!lm_head).*proj", "(?=model)m",
        R"(\w+\.\w+\.\d{1,3}\.)", "[^.]+\\.[]l]", R"(.*[\d_]proj)", "m.*|x", "((a*)*)*model"})
    EXPECT_TRUE(Starts(pattern, kName)) << pattern;
  for (const char* pattern : {"layers", "down", "model$", R"(.*\.(up|gate)_proj$)", R"(.*\.2\..*)", "(?!model).*",
                              ".{30}", "[^m]", R"(\d)", "a{2}", "(?=layers)m"})
    EXPECT_FALSE(Starts(pattern, kName)) << pattern;
}

TEST(NamePattern, SearchesAnywhere) {
  EXPECT_TRUE(Somewhere("layers", "model.layers.0"));
  EXPECT_TRUE(Somewhere("0$", "model.layers.0"));
  EXPECT_FALSE(Somewhere("^layers", "model.layers.0"));
  EXPECT_FALSE(Somewhere("layers$", "model.layers.0"));
}

TEST(NamePattern, RefusesWhatIsNoPattern) {
  const auto refused = [](std::string_view pattern, const char* why) {
    EXPECT_THAT(Call([&] { NamePattern(pattern, "where"); }), ThrowsMessage<Error>(HasSubstr(why))) << pattern;
  };
  refused("(", "where: got the pattern '(', at 1: missing closing parenthesis; expected a regular expression");
  for (const char* pattern : {")", "[a", "*", "a**", "a{3,2}", "\\", "\\1", "[z-a]", "\\C"})
    refused(pattern, "expected a regular expression of Python's");
  refused(std::string(300, '(') + std::string(300, ')'), "parentheses are too deeply nested");
  refused("(((.?){900}){900}){900}b", "regular expression is too large");
  refused(std::string(1001, 'a'), "got a pattern of 1001 bytes");
}

// What takes a backtracking matcher 2^30 steps.
TEST(NamePattern, NoPatternTakesLong) {
  EXPECT_FALSE(Starts("(a|a)*(a|a)*(a|aa)*b", std::string(30, 'a')));
  for (const char* pattern : {"(a|a)*(a|a)*(a|aa)*b", "((?:a|a)(?1)?)c?b"}) {
    EXPECT_THAT(Call([&] { Starts(pattern, std::string(30, 'a') + "xb"); }),
                ThrowsMessage<Error>(HasSubstr("p: the pattern takes too long on the name 'aaa")));
  }
}

}  // namespace
}  // namespace tare::name_pattern_test
