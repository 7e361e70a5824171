// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::prompt_items_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(PromptItems, OwnLines) {
  const PromptItem item = ParsePrompt(R"({"prompt": "1+1=", "targets": ["2", "two"], "stop": "\n", "max_tokens": 5,
      "temperature": 0.5, "top_p": 0.9, "score": "number", "depth": 3, "text": "x", "list": [1]})",
                                      "items");
  EXPECT_EQ(item.prompt, "1+1=");
  EXPECT_THAT(item.targets, ElementsAre("2", "two"));
  EXPECT_THAT(item.stops, ElementsAre("\n"));
  EXPECT_EQ(item.tokens, 5);
  EXPECT_EQ(item.temperature, 0.5);
  EXPECT_EQ(item.top_p, 0.9);
  EXPECT_EQ(item.score, AnswerScore::kNumber);
  EXPECT_EQ(item.keys, Json::parse(R"({"depth": 3, "text": "x"})"));
  const PromptItem plain = ParsePrompt(R"({"prompt": "", "targets": ["2"]})", "items");
  EXPECT_FALSE(plain.tokens || plain.temperature);
  EXPECT_EQ(plain.score, AnswerScore::kExact);
  const PromptItem chat =
      ParsePrompt(R"({"messages": [{"role": "user", "content": "1+1="}], "targets": "2"})", "items");
  EXPECT_EQ(chat.chat["messages"][0]["content"], "1+1=");
  EXPECT_THAT(chat.prompt, HasSubstr("1+1=")) << "of which duplicates are told and answers guessed";
}

constexpr const char* kLogged =
    R"({"doc_id": 4, "doc": {"level": 2}, "target": "He has 3 * 6 = 18.\n#### 18", "arguments": {"gen_args_0": {
        "arg_0": "Question: how many?\nAnswer:", "arg_1": {"until": ["Question:", "</s>", ""], "do_sample": false,
        "temperature": 0.0}}}, "filter": "strict-match", "filtered_resps": ["18"]})";

std::string OneLine(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

TEST(PromptItems, LinesThatTheHarnessLogged) {
  const PromptItem item = ParsePrompt(kLogged, "items");
  EXPECT_EQ(item.prompt, "Question: how many?\nAnswer:");
  EXPECT_THAT(item.stops, ElementsAre("Question:", "</s>"));
  EXPECT_EQ(item.tokens, 256);
  EXPECT_EQ(item.temperature, 0);
  EXPECT_EQ(item.score, AnswerScore::kNumber);
  EXPECT_EQ(item.keys, Json::parse(R"({"doc_id": 4, "level": 2})"));
  const PromptItem listed = ParsePrompt(
      R"({"doc": {}, "target": ["a", "b"], "arguments": [["p", {"until": "\n", "max_gen_toks": 8, "do_sample": true,
          "temperature": 0.7}]]})",
      "items");
  EXPECT_THAT(listed.targets, ElementsAre("a", "b"));
  EXPECT_EQ(listed.tokens, 8);
  EXPECT_EQ(listed.temperature, 0.7);
  EXPECT_EQ(listed.score, AnswerScore::kExact);
}

// A task with two filters has two lines for each request.
TEST(PromptItems, ALoggedRequestCountsOnce) {
  const TemporaryFolder folder;
  const std::string line = OneLine(kLogged);
  std::string other = line;
  other.replace(other.find("\"doc_id\": 4"), 11, "\"doc_id\": 5");
  PutFile(folder / "log.jsonl", line + other + line);
  EXPECT_EQ(LoadPrompts(folder / "log.jsonl", 0, TakeFrom::kStart).size(), 2u);
  EXPECT_EQ(LoadPrompts(folder / "log.jsonl", 1, TakeFrom::kStart).size(), 1u);
  PutFile(folder / "own.jsonl",
          "{\"prompt\": \"a\", \"targets\": [\"b\"]}\n{\"prompt\": \"a\", \"targets\": [\"b\"]}\n");
  EXPECT_EQ(LoadPrompts(folder / "own.jsonl", 0, TakeFrom::kSpread).size(), 2u) << "who repeats a prompt means it";
}

TEST(PromptItems, BadLinesAreNamed) {
  const auto refused = [](const char* line, const char* message) {
    EXPECT_THAT(Call([&] { ParsePrompt(line, "f: line 3"); }), ThrowsMessage<Error>(HasSubstr(message))) << line;
  };
  refused("[]", "f: line 3: got array, expected an object with \"prompt\" and \"targets\"");
  refused(R"({"targets": ["a"]})", "f: line 3: got no \"prompt\"");
  refused(R"({"prompt": "a"})", "f: line 3: got no \"targets\"");
  refused(R"({"prompt": "a", "targets": []})", "got no target, expected at least one target");
  refused(R"({"prompt": "a", "targets": ["b", " "]})", "got an empty target");
  refused(R"({"prompt": "a", "targets": [1]})", "\"targets\": got 1, expected a text or a list of texts");
  refused(R"({"prompt": "a", "targets": ["b"], "stop": [""]})", "\"stop\": got an empty text");
  refused(R"({"prompt": "a", "targets": ["b"], "max_tokens": 0})", "\"max_tokens\": got 0, expected a number from 1");
  refused(R"({"prompt": "a", "targets": ["b"], "max_tokens": 1.5})", "got 1.5, expected a whole number");
  refused(R"({"prompt": "a", "targets": ["b"], "temperature": "hot"})",
          "\"temperature\": got \"hot\", expected a number");
  refused(R"({"prompt": "a", "targets": ["b"], "top_p": 0})", "\"top_p\": got 0, expected a number from");
  refused(R"({"prompt": "a", "targets": ["b"], "score": "bleu"})", "\"score\": got 'bleu', expected exact, contains");
  refused(R"({"doc": {}, "target": "a", "arguments": [["p", " q"]]})", "expected one request of a context and how");
  refused(R"({"doc": {}, "target": "a", "arguments": [["p", {"num_beams": 4}]]})", "\"arguments\": got num_beams");
  refused(R"({"doc": {}, "target": {}, "arguments": [["p", {}]]})", "\"target\": got {}, expected a text");
}

// Scores worked out by hand, after the rules of SQuAD, RULER and the harness's GSM8K.
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
}  // namespace tare::prompt_items_test
