// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::generate_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Outcome Generate(std::vector<std::string> options, const std::string& model = PairFolder("novels-differential")) {
  options.insert(options.begin(), {"generate", model});
  return CallTare(options);
}

TEST(GenerateCommand, PrintsTextAndFigures) {
  const std::vector<std::string> command{
      "--prompt", "It was a dark night", "--tokens", "20", "--temperature", "0.8", "--seed", "3",
      "--cache",  "cache_k=int8/token"};
  const Outcome text = Generate(command);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.err, StartsWith("\nstopped at the number of --tokens\n20 tokens in "));
  std::vector<std::string> as_json = command;
  as_json.insert(as_json.end(), {"--json", "-"});
  const Outcome outcome = Generate(as_json);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "tare.generate/1");
  EXPECT_EQ(json.at("tokens").size(), 20u);
  EXPECT_EQ(json.at("stop"), "tokens");
  EXPECT_EQ(json.at("text").get<std::string>() + "\n", text.out);
  EXPECT_EQ(json.at("cache"), "cache_k=int8/token,cache_v=f32");
  EXPECT_GT(json.at("bandwidth_fraction").get<double>(), 0);
}

// One scale of a layer's keys and one of its values, by statistics.
TEST(GenerateCommand, CachesWithStaticScales) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-differential");
  PutFile(folder / "text", "It was a dark night, and the rain fell in torrents, except at occasional intervals.");
  ASSERT_EQ(
      CallTare({"stats", model, "--input", folder / "text", "--sites", "k,v", "--out", folder / "s.h5"}).exit_code, 0);
  const std::vector<std::string> rules{
      "--prompt", "It was", "--tokens", "5", "--cache", "cache_k=fp8e4m3/tensor+static,cache_v=int8/tensor+static"};
  std::vector<std::string> measured = rules;
  measured.insert(measured.end(), {"--stats", folder / "s.h5", "--json", "-"});
  const Outcome outcome = Generate(measured);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("tokens").size(), 5u);
  EXPECT_THAT(Generate(rules).err, HasSubstr("got +static without statistics, expected a statistics file of this"));
  const Outcome idle = Generate({"--prompt", "It was", "--stats", folder / "s.h5"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_THAT(idle.err, HasSubstr("--stats"));
}

// The text that the template writes, with its `<s>` and no second one, as if it were typed. SentencePiece puts a space
// before a text, but not after a token: the template writes it.
TEST(GenerateCommand, AChatIsWrittenByTheTemplate) {
  const TemporaryFolder folder;
  for (const auto& file : std::filesystem::directory_iterator(PairFolder("novels-differential")))
    std::filesystem::create_symlink(std::filesystem::absolute(file.path()), folder / file.path().filename().string());
  PutFile(folder / "chat_template.jinja",
          "<s> {% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ '\\n' }}{% endfor %}She");
  PutFile(folder / "chat.json",
          R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]})");
  const auto json = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--tokens", "8", "--json", "-"});
    const Outcome outcome = Generate(options, folder.path().string());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const Json typed = json({"--prompt", "system: Be brief.\nuser: Hi\nShe"});
  for (const Json& chat : {json({"--chat", "--system", "Be brief.", "--prompt", "Hi"}),
                           json({"--chat", "--input", folder / "chat.json"})}) {
    EXPECT_EQ(chat.at("prompt_tokens"), typed.at("prompt_tokens"));
    EXPECT_EQ(chat.at("tokens"), typed.at("tokens"));
  }
  EXPECT_THAT(Generate({"--prompt", "a", "--system", "b"}, folder.path().string()).err,
              HasSubstr("--system: got no --chat with it, expected both"));
}

// Without a tokenizer ids go in and come out.
TEST(GenerateCommand, IdsGiveIds) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 1, 5);
  const Outcome outcome =
      Generate({"--input", folder / "ids.safetensors", "--tokens", "4", "--plan", "weights=int4/group16"},
               GoldenFolder("diffllama-mha"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.out, ' '), 4);
  const Outcome recurrent = Generate({"--input", folder / "ids.safetensors", "--tokens", "4"}, GoldenFolder("mamba2"));
  EXPECT_EQ(recurrent.exit_code, 0) << recurrent.err;  // no keys that the default rules of caches could name
}

// The whole preset: attention on the integer kernels for the prompt, linear layers for all tokens.
TEST(GenerateCommand, APlanExecutesThePrompt) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 1, 20);
  const std::vector<std::string> command{"--input",  folder / "ids.safetensors",
                                         "--tokens", "4",
                                         "--json",   "-",
                                         "--cache",  "cache_k=int8/token,cache_v=int4/token",
                                         "--plan"};
  for (const char* name : {"gpt-oss", "diff-v2-gqa", "phi4flash"}) {
    std::vector<std::string> options = command;
    options.push_back("int8");
    const Outcome outcome = Generate(options, GoldenFolder(name));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json.at("plan"), "int8");
    EXPECT_EQ(json.at("tokens").size(), 4u);
  }
}

// KIVI's two bits, past a page of 64 tokens.
TEST(GenerateCommand, OverACacheInTwoBits) {
  for (const std::string cache : {"cache_k=int2/channel+min,cache_v=int2/token+min,first=2",
                                  "cache_k=int2/block32.channel+min,cache_v=int2/group32+min"}) {
    const Outcome outcome =
        Generate({"--prompt", "It was a dark night", "--tokens", "80", "--cache", cache, "--json", "-"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json json = Json::parse(outcome.out);
    EXPECT_EQ(json.at("cache"), cache);
    EXPECT_EQ(json.at("tokens").size(), 80u);
  }
}

// Written at once, not after the last token; what came so far is kept.
TEST(GenerateCommand, AFullStandardOutputEndsIt) {
  const TemporaryFolder folder;
  const Outcome outcome = StartTare({"generate", PairFolder("novels-differential"), "--prompt", "It was a dark night",
                                     "--tokens", "200", "--json", folder / "g.json"},
                                    {.standard_output = "/dev/full"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output: cannot be written: No space left on device; try freeing space"));
  const Json json = Json::parse(GetFile(folder / "g.json"));
  EXPECT_LT(json.at("tokens").size(), 10u);
  EXPECT_EQ(json.at("stop"), "error");
}

TEST(GenerateCommand, RefusalsSayWhatToTry) {
  const TemporaryFolder folder;
  PutManyIds(folder / "two.safetensors", 2, 5);
  const auto refused = [](const Outcome& outcome, int code, const char* why) {
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(outcome.out, "");
  };
  refused(Generate({"--prompt", "a", "--tokens", "9223372036854775807"}), 1,
          "and 9223372036854775807 to generate, expected");
  for (const char* option : {"--temperature", "--top-p", "--seed"})
    refused(Generate({"--prompt", "a", option, ""}), 2, "got '', expected a number");
  refused(Generate({}), 2, "--prompt: got none, expected a text, or a file with --input");
  refused(Generate({"--prompt", "a", "--tokens", "4000"}), 1, "expected at most max_position_embeddings 2048 together");
  refused(Generate({"--prompt", "a", "--plan", "attn_logits=int6/row"}), 2, "attn_logits");
  refused(Generate({"--prompt", "a", "--plan", "sage2"}), 2, "try simulating it, as tare eval does without --executed");
  refused(Generate({"--prompt", "a", "--cache", "cache_k=int5/token"}), 2, "got 'int5'");
  refused(Generate({"--prompt", "a", "--plan", "int8", "--cache", "last=8"}), 2, "rules for attention beside last=8");
  refused(Generate({"--input", folder / "two.safetensors"}, GoldenFolder("llama-mha")), 1, "got 2 rows of ids");
  refused(Generate({"--prompt", "a"}, GoldenFolder("llama-mha")), 1, "tokenizer");
  refused(Generate({"--prompt", "a"}, GoldenFolder("clip-text")), 2, "clip");
}

}  // namespace
}  // namespace tare::generate_test
