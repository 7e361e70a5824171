// SPDX-License-Identifier: Apache-2.0
// Scores worked out by hand, after the rules of SQuAD, RULER and the harness's GSM8K.
#include "experiments/tasks/answer_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::answer_scores_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(AnswerScores, WordsAreSquads) {
  EXPECT_THAT(NormalWords("  The Eiffel-Tower,\n a  \"TOWER\" "), ElementsAre("eiffeltower", "tower"));
  EXPECT_THAT(NormalWords("an a the"), IsEmpty());
  EXPECT_THAT(NormalWords("\u00c9COLE theatre"), ElementsAre("\u00e9cole", "theatre"));
}

// Two of three words in common with two of four: 2 * 2 / 7.
TEST(AnswerScores, F1CountsCommonWords) {
  EXPECT_DOUBLE_EQ(WordF1({"in", "old", "rome"}, {"rome", "in", "x", "y"}), 4.0 / 7);
  EXPECT_DOUBLE_EQ(WordF1({"go", "go", "go"}, {"go", "go", "stop"}), 4.0 / 6) << "each word of the target once";
  EXPECT_DOUBLE_EQ(WordF1({}, {}), 1);
  EXPECT_DOUBLE_EQ(WordF1({}, {"x"}), 0);
}

TEST(AnswerScores, TheLastNumberCounts) {
  EXPECT_EQ(LastNumber("3 apples and 4: so 3 + 4 = 7."), "7");
  EXPECT_EQ(LastNumber("it costs $1,234.50 ..."), "1234.5") << "dots alone are no number";
  EXPECT_EQ(LastNumber("it is -007"), "-7");
  EXPECT_EQ(LastNumber("0.00"), "0");
  EXPECT_EQ(LastNumber("-0"), "0");
  EXPECT_EQ(LastNumber(".5"), "0.5");
  EXPECT_EQ(LastNumber("version 1.2.3"), std::nullopt);
  EXPECT_EQ(LastNumber("none, at all."), std::nullopt);
  EXPECT_EQ(LastNumber("98765432109876543210"), "98765432109876543210") << "no double holds it";
}

TEST(AnswerScores, TheBestTargetCounts) {
  const AnswerScores scores = ScoreAnswer(" The answer is Paris, in 1889.", {"London", "paris"});
  EXPECT_FALSE(scores.exact);
  EXPECT_TRUE(scores.contains);
  EXPECT_FALSE(scores.number);
  EXPECT_DOUBLE_EQ(scores.recall, 0.5);
  EXPECT_DOUBLE_EQ(scores.f1, 2.0 / 6) << "answer is paris in 1889";
  EXPECT_TRUE(ScoreAnswer("The Paris!", {"paris"}).exact);
  EXPECT_TRUE(ScoreAnswer("so 6 * 3 = 18.0", {"He has 9. #### 18"}).number);
  EXPECT_FALSE(ScoreAnswer("98765432109876543211", {"98765432109876543210"}).number);
}

TEST(AnswerScores, AnItemSaysWhatIsRight) {
  const AnswerScores half = ScoreAnswer("one 7", {"one", "two"});
  EXPECT_FALSE(half.Right(AnswerScore::kExact));
  EXPECT_TRUE(half.Right(AnswerScore::kContains));
  EXPECT_FALSE(half.Right(AnswerScore::kAll));
  EXPECT_FALSE(half.Right(AnswerScore::kNumber));
  EXPECT_TRUE(ScoreAnswer("two one", {"one", "two"}).Right(AnswerScore::kAll));
}

}  // namespace
}  // namespace tare::answer_scores_test
