// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/choice_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/error.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::choice_items_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
    return LoadChoiceItems(path, limit);
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
    const std::vector<ChoiceItem> items = LoadChoiceItems(pair / file);
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

}  // namespace

}  // namespace tare::choice_items_test
