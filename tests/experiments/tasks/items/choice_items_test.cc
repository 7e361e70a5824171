// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::choice_items_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Cases = std::vector<std::pair<std::string, std::string>>;
using Requests = std::vector<std::vector<std::string>>;

namespace fs = std::filesystem;

const Tokenizer& PairTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(TARE_SOURCE_DIR "/experiments/pair/novels-standard");
  return tokenizer;
}

ChoiceItem Item(const std::string& context, const std::vector<std::string>& endings) {
  ChoiceItem item;
  item.contexts = {context};
  item.endings = endings;
  item.where = "f: line 7";
  return item;
}

void Refuses(const char* json, const char* why) {
  EXPECT_THAT(Call([&] { ParseChoiceItem(json, "f:1"); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
}

TEST(ChoiceItems, BareContextIsUsedAsWritten) {
  const ChoiceItem item = ParseChoiceItem(
      R"({"ind": 0, "ctx": " It  [is] ", "endings": ["a  b", " c"], "label": 1, "depth": 0.25})", "f:1");
  EXPECT_EQ(item.Context(0), " It  [is] ");
  EXPECT_THAT(item.endings, ElementsAre("a  b", " c"));
  EXPECT_EQ(item.label, 1);
  EXPECT_EQ(item.keys, nlohmann::ordered_json::parse(R"({"depth": 0.25, "ind": 0})"));
}

TEST(ChoiceItems, HellaswagsOwnFieldsArePrepared) {
  const ChoiceItem item = ParseChoiceItem(
      R"({"activity_label": "Skating", "ctx_a": "A man [x] skates.", "ctx_b": "he FALLS", "ctx": "not this",
      "endings": [" [title] up", "down [y] there ", "c", "d"], "label": "3"})",
      "f:1");
  EXPECT_EQ(item.Context(1), "Skating: A man skates. He falls");
  EXPECT_THAT(item.endings, ElementsAre(" up", "down there", "c", "d"));
  EXPECT_EQ(item.label, 3);
  EXPECT_TRUE(item.keys.empty()) << "what an item is made of is no key";
}

TEST(ChoiceItems, BadItemsHaveTheirOwnMessages) {
  Refuses("{", "f:1");
  Refuses("[1]", "f:1: got array");
  Refuses(R"({"endings": ["a", "b"], "label": 0})", "got the fields endings label, expected those of an item");
  Refuses(R"({"ctx": 5, "endings": ["a", "b"], "label": 0})", "\"ctx\": got 5");
  Refuses(R"({"ctx": " \u3000", "endings": ["a", "b"], "label": 0})", "empty context");
  Refuses(R"({"ctx": "c", "label": 0})", "\"endings\": got none");
  Refuses(R"({"ctx": "c", "endings": ["a"], "label": 0})", "at least two");
  Refuses(R"({"ctx": "c", "endings": ["a", 2], "label": 0})", "\"endings\": got 2");
  Refuses(R"({"ctx": "c", "endings": ["a", " "], "label": 0})", "empty one");
  Refuses(R"({"ctx": "c", "endings": ["a", "b"]})", "no \"label\"");
  for (const char* label :
       {"2", "-1", "\"2\"", "\"\"", "\" 1\"", "\"1x\"", "0.0", "null", "true", "18446744073709551615", "1e30"}) {
    Refuses((std::string(R"({"ctx": "c", "endings": ["a", "b"], "label": )") + label + "}").c_str(), "expected 0 to 1");
  }
  Refuses(R"({"activity_label": "x", "ctx_a": "a", "ctx_b": 1, "ctx": "c", "endings": ["a", "b"], "label": 0})",
          "\"ctx_b\"");
}

TEST(ChoiceItems, FilesOfLines) {
  const TemporaryFolder folder;
  const fs::path path = folder / "items.jsonl";
  const std::string good = R"({"ctx": "c", "endings": ["a", "b"], "label": 0})";
  const auto load = [&](const std::string& text, size_t limit = 0) {
    PutFile(path, text);
    return LoadLines<ParseChoiceItem>(path, limit);
  };
  const std::vector<ChoiceItem> items = load(good + "\r\n\n  \n" + good);  // the last without a newline
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].line, 1u);
  EXPECT_EQ(items[1].line, 4u);
  EXPECT_EQ(load(good + "\n" + good + "\nbad\n", 2).size(), 2u);
  EXPECT_THAT(Call([&] { load(good + "\n" + good + "\nbad\n"); }),
              ThrowsMessage<Error>(HasSubstr("items.jsonl: line 3")));
  EXPECT_THAT(Call([&] { load(good + "\n\xff\n"); }),
              ThrowsMessage<Error>(HasSubstr("items.jsonl: line 2: got byte 0xff")));
  EXPECT_THAT(Call([&] { load("\n"); }), ThrowsMessage<Error>(HasSubstr("got no items")));
  EXPECT_THAT(Call([&] { load(""); }), ThrowsMessage<Error>(HasSubstr("got no items")));
}

TEST(ChoiceItems, EmbeddedSets) {
  const fs::path pair = TARE_SOURCE_DIR "/experiments/pair";
  for (const auto& [file, count] :
       {std::pair{"continuations.jsonl", 2000u}, {"needles-1.jsonl", 1200u}, {"needles-4.jsonl", 1200u}}) {
    const std::vector<ChoiceItem> items = LoadLines<ParseChoiceItem>(pair / file);
    EXPECT_EQ(items.size(), count);
    for (const ChoiceItem& item : std::span(items).first(100)) {
      ASSERT_EQ(item.endings.size(), 4u);
      ASSERT_TRUE(EncodeChoice(item, PairTokenizer()).shares_context) << file << " " << item.line;
    }
  }
}

TEST(EncodeChoice, SplitsAsTheHarness) {
  for (const auto& pair : ReadJson(TARE_SOURCE_DIR "/tests/data/text/encode_pair.json")) {
    const std::string ending = pair.at("ending").get<std::string>();
    const EncodedChoice choice =
        EncodeChoice(Item(pair.at("context").get<std::string>(), {ending, "other"}), PairTokenizer());
    EXPECT_EQ(choice.endings[0].tokens, pair.at("tokens").get<std::vector<int32_t>>()) << pair;
    EXPECT_EQ(choice.endings[0].first_scored, pair.at("first_scored").get<size_t>()) << pair;
    EXPECT_EQ(choice.endings[0].characters, pair.at("characters").get<size_t>()) << pair;
    EXPECT_EQ(choice.endings.size(), 2u);
    EXPECT_TRUE(choice.shares_context);
  }
}

// A model whose pieces reach over spaces: "in the" is one of them.
TEST(EncodeChoice, AnEndingCanChangeTheContextsTokens) {
  const fs::path path = TARE_SOURCE_DIR "/tests/data/text/phrases.model";
  const Tokenizer phrases = Tokenizer::LoadFile(path);
  const std::vector<int32_t> context = phrases.Encode("He went in");
  const EncodedChoice choice = EncodeChoice(Item("He went in", {"a boat", "the boat", "his boat"}), phrases);
  EXPECT_FALSE(choice.shares_context);
  EXPECT_EQ(choice.endings[1].tokens, phrases.Encode("He went in the boat"));
  for (const EncodedChoice::Ending& ending : choice.endings) EXPECT_EQ(ending.first_scored, context.size());
  EXPECT_NE(choice.endings[1].tokens[context.size() - 1], context.back());
  EXPECT_TRUE(EncodeChoice(Item("He went in", {"a boat", "his boat"}), phrases).shares_context);
  EXPECT_THROW(EncodeChoice(Item("He went in", {"a boat", "the"}), phrases),
               Error);  // the split leaves the ending nothing
}

TEST(EncodeChoice, NothingToScoreIsRefused) {
  const auto encode = [](const char* context, const char* ending) {
    EncodeChoice(Item(context, {"a", ending}), PairTokenizer());
  };
  EXPECT_THAT(Call([&] { encode("c", "\u2581"); }),
              ThrowsMessage<Error>(HasSubstr("line 7: ending '\u2581' adds no token")));
  EXPECT_THAT(Call([&] { encode("\u2581", "a"); }),
              ThrowsMessage<Error>(HasSubstr("line 7: got a context without a token")));
}

void RefusesContinuation(const char* json, const char* why) {
  EXPECT_THAT(Call([&] { ParseContinuation(json, "f:1"); }), ThrowsMessage<Error>(HasSubstr(why))) << json;
}

TEST(ContinuationItems, AreScoredAsWritten) {
  const ChoiceItem item = ParseContinuation(R"({"context": "c ", "continuation": "x", "text": "no", "id": 4})", "f:1");
  EXPECT_THAT(item.contexts, ElementsAre("c "));
  EXPECT_THAT(item.endings, ElementsAre("x"));
  EXPECT_EQ(item.between, "");
  EXPECT_EQ(item.keys, nlohmann::ordered_json::parse(R"({"id": 4, "text": "no"})"));
}

TEST(ContinuationItems, AListSharesItsContext) {
  const ChoiceItem item = ParseContinuation(R"({"context": "c", "continuation": [" x", " y"]})", "f:1");
  EXPECT_THAT(item.contexts, ElementsAre("c"));
  EXPECT_THAT(item.endings, ElementsAre(" x", " y"));
  EXPECT_THAT(ParseContinuation(R"({"context": "c", "continuation": ["x"]})", "f:1").endings, ElementsAre("x"));
  RefusesContinuation(R"({"context": "c", "continuation": []})", "at least two");
  RefusesContinuation(R"({"context": "c", "continuation": ["a", ""]})", "got an empty one");
  RefusesContinuation(R"({"context": "c", "continuation": [1]})", "\"continuation\": got [1]");
}

TEST(ContinuationItems, LambadasLinesAndTheirLogAgree) {
  const std::vector<ChoiceItem> lines = LoadLines<ParseContinuation>(HarnessFile("lambada_openai.jsonl")),
                                logs = LoadLines<ParseContinuation>(HarnessFile("samples_lambada_openai.jsonl"));
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].contexts, logs[i].contexts);
    EXPECT_EQ(lines[i].endings, logs[i].endings);
    EXPECT_EQ(lines[i].line, i + 1);
  }
  EXPECT_EQ(lines[0].endings[0], " sea\"");
  EXPECT_EQ(ParseContinuation(R"({"text": "one"})", "f:1").contexts[0], "");
  EXPECT_EQ(ParseContinuation(R"({"text": "one"})", "f:1").endings[0], " one");
}

TEST(ContinuationItems, BadLinesHaveTheirOwnMessages) {
  RefusesContinuation("[]", "expected an object with \"context\" and \"continuation\", or \"text\"");
  RefusesContinuation(R"({"context": "c", "endings": ["a", "b"], "label": 0})",
                      "got \"endings\", expected a context and its");
  RefusesContinuation(R"({"context": "c"})", "got no \"continuation\"");
  RefusesContinuation(R"({"continuation": "c"})", "got no \"context\"");
  RefusesContinuation(R"({"context": "c", "continuation": ""})", "got an empty one");
  RefusesContinuation(R"({"text": 5})", "\"text\": got 5");
  RefusesContinuation(R"({"doc": {}, "target": "", "arguments": [["c", " a"], ["c", " b"]]})", "try choice=FILE");
  RefusesContinuation(R"({"doc": {}, "target": "", "arguments": [["text"]]})", "try documents=FILE");
}

// Each task's lines, read by their fields, give the requests and answers that lm-evaluation-harness logged of them
// (tests/data/harness).
std::vector<nlohmann::json> Logged(const std::string& task) {
  std::vector<nlohmann::json> lines;
  ForEachLine(HarnessFile("samples_" + task + ".jsonl"), 0, TakeFrom::kStart,
              [&](const JsonLine& line) { lines.push_back(nlohmann::json::parse(line.text)); });
  return lines;
}

Requests RequestsOf(const ChoiceItem& item) {
  Requests requests;
  for (size_t e = 0; e < item.endings.size(); ++e)
    requests.push_back({item.Context(e), item.between + item.endings[e]});
  return requests;
}

class TaskTest : public testing::TestWithParam<const char*> {};

TEST_P(TaskTest, LinesAndLogsGiveTheHarnesssRequests) {
  const std::string task = GetParam();
  const std::vector<ChoiceItem> lines = LoadLines<ParseChoiceItem>(HarnessFile(task + ".jsonl")),
                                logs = LoadLines<ParseChoiceItem>(HarnessFile("samples_" + task + ".jsonl"));
  const std::vector<nlohmann::json> logged = Logged(task);
  ASSERT_EQ(lines.size(), logged.size());
  ASSERT_EQ(logs.size(), logged.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Requests expected = LoggedArguments(logged[i], "log");
    EXPECT_EQ(RequestsOf(lines[i]), expected) << task << " " << i;
    EXPECT_EQ(RequestsOf(logs[i]), expected) << task << " " << i;
    EXPECT_EQ(lines[i].endings, logs[i].endings);
    EXPECT_EQ(lines[i].label, logs[i].label) << task << " " << i;
    const auto likelihood = [&](size_t e) { return std::stod(logged[i]["filtered_resps"][e][0].get<std::string>()); };
    size_t best = 0;
    for (size_t e = 1; e < expected.size(); ++e) best = likelihood(e) > likelihood(best) ? e : best;
    EXPECT_EQ(static_cast<size_t>(lines[i].label) == best, logged[i]["acc"] == 1.0) << task << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Harness, TaskTest,
                         testing::Values("hellaswag", "arc_easy", "openbookqa", "piqa", "winogrande", "boolq", "mmlu"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ChoiceForms, FieldsOfNoForm) {
  Refuses(R"({"prompt": "a", "targets": ["b"]})", "question); try generate=FILE");
  Refuses(R"({"prompt": "a", "answer": 1})", "got the fields answer prompt, expected those of an item: ");
  Refuses(R"({"prompt": "a"})", "piqa (goal sol1 sol2), winogrande (sentence option1 option2 answer)");
}

TEST(ChoiceForms, LinesWithoutTheirAnswer) {
  Refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": ""})",
          "\"answerKey\": got \"\", expected one of the labels [\"A\",\"B\"]");
  Refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B", "C"]}, "answerKey": "A"})",
          "one per text");
  Refuses(R"({"question": "q", "choices": ["a"], "answerKey": "A"})", "\"choices\": got [\"a\"], expected text and");
  Refuses(R"({"goal": "g", "sol1": "a", "sol2": "b", "label": -1})", "\"label\": got -1, expected 0 to 1");
  Refuses(R"({"sentence": "a _ b", "option1": "x", "option2": "y", "answer": ""})", "got '', expected 1 or 2");
  Refuses(R"({"sentence": "a b", "option1": "x", "option2": "y", "answer": "1"})", "expected a _ for the option");
  Refuses(R"({"passage": "p", "question": "q"})", "got no \"label\"");
  Refuses(R"({"question": "q", "subject": "s", "choices": ["a", "b", "c"], "answer": 1})", "got 3, expected four");
  Refuses(R"({"question": "q", "subject": "s", "choices": ["a", "b", "c", "d"], "answer": 4})", "expected 0 to 3");
}

TEST(ChoiceForms, BoolqsOwnAnswers) {
  EXPECT_EQ(ParseChoiceItem(R"({"passage": "p", "question": "q", "answer": true})", "f:1").label, 1);
  EXPECT_EQ(ParseChoiceItem(R"({"passage": "p", "question": "q", "answer": false})", "f:1").label, 0);
}

Cases Read(const char* key) { return ReadJson(TARE_SOURCE_DIR "/tests/data/text/hellaswag.json").at(key).get<Cases>(); }

TEST(HellaswagText, PreparesAsTheHarness) {
  for (const auto& [text, prepared] : Read("preprocess")) EXPECT_EQ(PrepareHellaswag(text), prepared) << text;
}

TEST(HellaswagText, CapitalizesAsPython) {
  for (const auto& [text, capitalized] : Read("capitalize")) EXPECT_EQ(Capitalize(text), capitalized) << text;
}

TEST(HellaswagText, ContextIsActivityAndBothHalves) {
  EXPECT_EQ(HellaswagContext("Baking", "She mixes. [step] Then", "THE dough RISES"),
            "Baking: She mixes. Then The dough rises");
  EXPECT_EQ(HellaswagContext("Baking", "She mixes.", ""), "Baking: She mixes.");
}

}  // namespace
}  // namespace tare::choice_items_test
