// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <span>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"
#include "tests/experiments/tasks/made/prose.h"
#include "tests/support/call.h"

namespace tare::copies_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(NameIn, IsACapitalisedWordWithinASentence) {
  EXPECT_EQ(NameIn("to", "Harriet"), "Harriet");
  EXPECT_EQ(NameIn("to", "Harriet,"), "Harriet");
  EXPECT_EQ(NameIn("end.", "Harriet"), "") << "any word is capital there";
  EXPECT_EQ(NameIn("\"", "Harriet"), "");
  EXPECT_EQ(NameIn("to", "Mrs."), "") << "three letters";
  EXPECT_EQ(NameIn("to", "HARRIET"), "");
  EXPECT_EQ(NameIn("to", "harriet"), "");
  EXPECT_EQ(NameIn("to", "Harriet's"), "") << "its ending would not be the whole word";
}

TEST(MakeCopies, ThePassageContinuesWithTheName) {
  const std::vector<Json> items =
      MakeCopies({.lengths = {300, 500}, .depths = {0, 1}, .samples = 3}, Prose(), ProseTokenizer());
  ASSERT_EQ(items.size(), 12u);
  for (const Json& item : items) {
    const std::string context = item["ctx"], name = item["endings"][item["label"].get<size_t>()];
    const size_t line = context.rfind("\n ");
    const std::string passage = context.substr(0, line), stretch = context.substr(line + 2);
    EXPECT_EQ(Haystack::WordsOf(stretch, "t").size(), 8u);
    EXPECT_THAT(passage, HasSubstr(stretch + " " + name));
    for (const std::string ending : item["endings"]) {
      EXPECT_THAT(passage, HasSubstr(" " + ending));
      EXPECT_FALSE(stretch.contains(ending)) << item;
    }
    EXPECT_EQ(std::set<Json>(item["endings"].begin(), item["endings"].end()).size(), 4u);
    EXPECT_LE(PositionsOf(context, item["endings"], ProseTokenizer()), item["length"]);
  }
}

// Four names share a passage, so that nearest is not near: on average a name for depth 0 stands in its first part.
TEST(MakeCopies, TheNameIsTheNearestToItsDepth) {
  double first = 0, last = 0;
  for (const Json& item : MakeCopies({.lengths = {500}, .depths = {0, 1}, .samples = 20}, Prose(), ProseTokenizer())) {
    const std::string context = item["ctx"];
    const size_t line = context.rfind("\n ");
    const double place = static_cast<double>(context.find(context.substr(line + 2))) / static_cast<double>(line);
    (item["depth"] == 0 ? first : last) += place / 20;
  }
  EXPECT_LT(first, 0.35);
  EXPECT_GT(last, 0.65);
}

TEST(MakeCopies, EqualSeedsMakeEqualItems) {
  std::string lines;
  for (const Json& item : MakeCopies({.lengths = {300}, .samples = 1}, Prose(), ProseTokenizer()))
    lines += JsonText(item) + "\n";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(lines))),
            "8a75c64cc8b7e75a3b836fc46bacab07a10b90f472066e06b639df318acc19a2");
}

TEST(MakeCopies, ATextWithoutNamesIsRefused) {
  const std::string text = "a text with no names in it at all, and that is that";
  const Haystack plain(text, ProseTokenizer(), "t");
  EXPECT_THAT(Call([&] { MakeCopies({}, plain, ProseTokenizer()); }),
              ThrowsMessage<Error>(HasSubstr("got a text with 0 names, expected at least 4")));
  EXPECT_THAT(
      Call([&] { MakeCopies({.lengths = {40}}, Prose(), ProseTokenizer()); }),
      ThrowsMessage<Error>(HasSubstr("got no passage of length 40 with 4 names apart in 30000, expected some")));
}

}  // namespace
}  // namespace tare::copies_test
