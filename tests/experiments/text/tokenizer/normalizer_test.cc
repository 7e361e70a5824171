// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::normalizer_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::string Apply(const nlohmann::json& json, const std::string& text) {
  return Normalizer(json, "normalizer").Apply(text);
}

TEST(Normalizer, EachKind) {
  EXPECT_EQ(Apply({{"type", "Strip"}}, " \t a \xc2\xa0"), "a");
  EXPECT_EQ(Apply({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a "), " a");
  EXPECT_EQ(Apply({{"type", "Strip"}}, "  "), "");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "_"}}, "a"), "_a");
  EXPECT_EQ(Apply({{"type", "Prepend"}, {"prepend", "_"}}, ""), "");
  EXPECT_EQ(Apply({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}, "a   b c"), "a b c");
  EXPECT_EQ(Apply({{"type", "NFKC"}}, "\xef\xac\x81"), "fi");
  EXPECT_EQ(Apply({{"type", "Lowercase"}}, "AB"), "ab");
  EXPECT_EQ(Apply({{"type", "ByteLevel"}}, " "), "\xc4\xa0");
  EXPECT_TRUE(Normalizer(nlohmann::json(), "").empty());
}

TEST(Normalizer, SequencesInOrder) {
  const nlohmann::json inner = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "X"}}}}};
  const nlohmann::json outer = {{"type", "Sequence"}, {"normalizers", {inner, {{"type", "Lowercase"}}}}};
  EXPECT_EQ(Apply(outer, "A"), "xa");
  EXPECT_THAT(Call([] { Normalizer({{"type", "Sequence"}}, "n"); }),
              ThrowsMessage<Error>(HasSubstr("n: Sequence: got no list normalizers")));
}

TEST(Normalizer, StepsInARowAreBounded) {
  nlohmann::json steps = nlohmann::json::array();
  for (int i = 0; i < 40; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  EXPECT_THAT(Call([&] { Apply({{"type", "Sequence"}, {"normalizers", steps}}, "a"); }),
              ThrowsMessage<Error>(HasSubstr("normalizer: got 131072 bytes from a text of 1, expected at most 65552")));
}

}  // namespace
}  // namespace tare::normalizer_test
