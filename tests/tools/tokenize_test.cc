// SPDX-License-Identifier: Apache-2.0
// In the sanitized build: it reads files that others made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/file/json.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::tokenize_test {
namespace {

using testing::HasSubstr;

const std::string kLlama3 = TARE_SOURCE_DIR "/tests/data/text/tokenizers/llama3.json";

TEST(TokenizeCommand, ALinePerText) {
  const TemporaryFolder folder;
  PutFile(folder / "t.jsonl", "{\"text\": \"It was\"}\n\n{\"text\": \"\"}");
  const std::string out = folder / "ids.jsonl";
  const Outcome outcome = CallTare({"tokenize", kLlama3, "--input", folder / "t.jsonl", "--out", out});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string lines = GetFile(out);
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["pieces"], (nlohmann::json{"<|begin_of_text|>", "I", "t", "\xc4\xa0was"}));
  EXPECT_EQ(lines.substr(lines.find('\n') + 1), "{\"ids\":[0],\"pieces\":[\"<|begin_of_text|>\"]}\n");
  const Outcome bare = CallTare({"tokenize", kLlama3, "--input", folder / "t.jsonl", "--no-special"});
  EXPECT_THAT(bare.out, HasSubstr("\n{\"ids\":[],\"pieces\":[]}\n"));
}

// Written as it comes, and still the JSON of the whole line, key by key.
TEST(TokenizeCommand, ALongTextIsOneLine) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\"It\" was\t" + std::to_string(i) + (i % 7 == 0 ? "\n" : " caf\xc3\xa9\\ ");
  PutFile(folder / "t.txt", text);
  const Outcome to_file =
      CallTare({"tokenize", kLlama3, "--input", folder / "t.txt", "--no-special", "--out", folder / "ids.jsonl"});
  ASSERT_EQ(to_file.exit_code, 0) << to_file.err;
  const std::string line = GetFile(folder / "ids.jsonl");
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json.dump() + "\n", line);
  EXPECT_EQ(json["ids"].size(), json["pieces"].size());
  EXPECT_GT(line.size(), 2 * text.size());
  EXPECT_EQ(CallTare({"tokenize", kLlama3, "--input", folder / "t.txt", "--no-special"}).out, line);
}

TEST(TokenizeCommand, BadLinesAreNamed) {
  const TemporaryFolder folder;
  PutFile(folder / "t.jsonl", "{\"text\": \"a\"}\n{\"test\": 1}\n");
  const Outcome outcome = CallTare({"tokenize", kLlama3, "--input", folder / "t.jsonl"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("t.jsonl: line 2: got no \"text\", expected a string"));
}

TEST(TokenizeCommand, TextThatIsNoUtf8IsNamed) {
  const TemporaryFolder folder;
  PutFile(folder / "t.txt", "ab\xff");
  const Outcome outcome = CallTare({"tokenize", kLlama3, "--input", folder / "t.txt"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("t.txt: got byte 0xff at offset 2"));
}

// A checkpoint with both files: the first is used, and inspect says so.
TEST(TokenizeCommand, TokenizerJsonComesFirst) {
  const TemporaryFolder folder;
  std::filesystem::copy(PairFolder("novels-standard"), folder / "m");
  std::filesystem::copy_file(kLlama3, folder / "m" / "tokenizer.json");
  EXPECT_THAT(CallTare({"inspect", folder / "m"}).out,
              HasSubstr("texts are read by tokenizer.json, as transformers does; not by tokenizer.model"));
  PutFile(folder / "t.txt", "It was");
  const Outcome outcome = CallTare({"tokenize", folder / "m", "--input", folder / "t.txt"});
  EXPECT_THAT(outcome.out, HasSubstr("<|begin_of_text|>"));
  EXPECT_THAT(CallTare({"eval", folder / "m", "--tasks", "perplexity=" + std::string(folder / "t.txt")}).out,
              HasSubstr("each after <s>"));
}

}  // namespace
}  // namespace tare::tokenize_test
