// SPDX-License-Identifier: Apache-2.0
// The tokenizers inside GGUF files give the ids that their source's own library gives (tests/data/gguf).
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/gguf_bytes.h"

namespace tare::gguf_tokenizer_test {
namespace {

std::filesystem::path Golden(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / name;
}

class GgufTokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(GgufTokenizerTest, IdsAreTheSources) {
  const std::string name = std::string("tokenizer-") + GetParam();
  const Tokenizer tokenizer = Tokenizer::Load(Golden(name + ".gguf"));
  const nlohmann::json lines = ReadJson(Golden(name + ".json"));
  ASSERT_FALSE(lines.empty());
  for (const nlohmann::json& line : lines) {
    const auto text = line["text"].get<std::string>();
    EXPECT_EQ(tokenizer.Encode(text), line["ids"].get<std::vector<int32_t>>()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GgufTokenizerTest,
                         testing::Values("llama-bpe", "qwen2", "dbrx", "gpt-2", "olmo", "smollm", "gpt-4o", "tekken",
                                         "pieces"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// SentencePiece's texts begin with <s>, if nothing says otherwise; the others' not.
TEST(GgufTokenizer, SaysWhetherTextsBeginWithASpecialToken) {
  EXPECT_EQ(Tokenizer::Load(Golden("tokenizer-pieces.gguf")).bos(), 1);
  EXPECT_EQ(Tokenizer::Load(Golden("tokenizer-llama-bpe.gguf")).bos(), std::nullopt);
}

// What llama-server 0.7.0 gives (/tokenize, parse_special): tokens are found in the text as it is, and every part
// between them gets the space in front, also where it has one. Those of a model named Phi-3 take whitespace after them.
struct Found {
  const char* text;
  std::vector<int32_t> spaced, flat, phi;
};

Tokenizer Pieces(bool adds_space, const char* name) {
  GgufBytes file;
  file.AddText("general.architecture", "llama").AddText("general.name", name);
  file.AddText("tokenizer.ggml.model", "llama").AddFlag("tokenizer.ggml.add_space_prefix", adds_space);
  file.AddTexts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<ud>", "   ", "<|end|>", "\u2581", "a", "b", "ab",
                                          "\u2581a", "\u2581ab", "\u2581\u2581", "\n", "<|sys|>", "<|endoftext|>"});
  std::vector<float> scores(16);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = -static_cast<float>(i);
  file.Add("tokenizer.ggml.scores", 9, GgufBytes::Numbers(6, scores));
  file.Add("tokenizer.ggml.token_type", 9,
           GgufBytes::Numbers<int32_t>(5, {2, 3, 3, 4, 4, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4, 3}));
  file.AddNumber("tokenizer.ggml.bos_token_id", 1).AddNumber("tokenizer.ggml.unknown_token_id", 0);
  const TemporaryFolder folder;
  PutFile(folder / "m.gguf", file.Bytes());
  return Tokenizer::Load(folder / "m.gguf");
}

TEST(GgufTokenizer, PartsBetweenTokensGetTheirSpaceAsInLlamaCpp) {
  const Found cases[]{
      {"ab", {11}, {9}, {11}},
      {" ab", {6, 11}, {11}, {6, 11}},
      {"  ab", {12, 11}, {6, 11}, {12, 11}},
      {"<ud>ab", {3, 11}, {3, 9}, {3, 11}},
      {"<ud> ab", {3, 6, 11}, {3, 11}, {3, 11}},
      {" <ud>ab", {12, 3, 11}, {6, 3, 9}, {12, 3, 11}},
      {"ab<ud>ab", {11, 3, 11}, {9, 3, 9}, {11, 3, 11}},
      {"ab <ud> ab", {11, 6, 3, 6, 11}, {9, 6, 3, 11}, {11, 6, 3, 11}},
      {"<s>ab", {1, 11}, {1, 9}, {1, 11}},
      {"<|end|>\n ab<ud>  \nab", {5, 6, 13, 11, 3, 12, 6, 13, 9}, {5, 13, 11, 3, 12, 13, 9}, {5, 11, 3, 11}},
      {"<ud><|end|>ab", {3, 5, 11}, {3, 5, 9}, {3, 5, 11}},
      {"a    b", {10, 4, 12, 8}, {7, 4, 6, 8}, {10, 4, 6, 8}},
      {"<ud>", {3}, {3}, {3}},
      {" ", {12}, {6}, {12}},
      {"", {}, {}, {}},
      {"<s>", {1}, {1}, {1}},
      {"a</s> \n<unk>  b<s> ab",
       {10, 2, 12, 13, 0, 12, 6, 8, 1, 6, 11},
       {7, 2, 6, 13, 0, 12, 8, 1, 11},
       {10, 2, 0, 12, 6, 8, 1, 6, 11}},
      {"<|sys|>\nab<|end|>  a", {14, 6, 13, 9, 5, 12, 10}, {14, 13, 9, 5, 6, 10}, {14, 11, 5, 10}},
      {"<|endoftext|> <unk> <s> \n</s>\n b",
       {15, 12, 0, 12, 1, 12, 13, 2, 6, 13, 6, 8},
       {15, 6, 0, 6, 1, 6, 13, 2, 13, 6, 8},
       {15, 12, 0, 12, 1, 12, 13, 2, 6, 8}},
  };
  const Tokenizer spaced = Pieces(true, "m"), flat = Pieces(false, "m"), phi = Pieces(true, "Phi-3 mini");
  for (const Found& c : cases) {
    EXPECT_EQ(spaced.Encode(c.text), c.spaced) << c.text;
    EXPECT_EQ(flat.Encode(c.text), c.flat) << c.text;
    EXPECT_EQ(phi.Encode(c.text), c.phi) << c.text;
  }
  EXPECT_EQ(spaced.Piece(4), "   ");
  EXPECT_EQ(spaced.Decode({11, 3, 9, 4, 9, 1}), "ab<ud>ab   ab");
}

// llama.cpp searches a whole text for each token, the longest first: "><" takes nothing from "|><|bb", nor "abb" from
// "bbab", though they begin earlier. Ids of llama-server 0.7.0, as above.
Tokenizer Overlapping(GgufBytes file, std::vector<std::string> tokens, const std::vector<int32_t>& kinds) {
  file.AddText("general.architecture", "llama").AddTexts("tokenizer.ggml.tokens", std::move(tokens));
  file.Add("tokenizer.ggml.token_type", 9, GgufBytes::Numbers<int32_t>(5, kinds));
  const TemporaryFolder folder;
  PutFile(folder / "m.gguf", file.Bytes());
  return Tokenizer::Load(folder / "m.gguf");
}

TEST(GgufTokenizer, TheLongestOfTokensThatOverlapCountsAsInLlamaCpp) {
  GgufBytes merged, spaced;
  merged.AddText("tokenizer.ggml.model", "gpt2").AddText("tokenizer.ggml.pre", "gpt-2");
  merged.AddTexts("tokenizer.ggml.merges", {"a b", "b b", "\u0120 a"});
  spaced.AddText("tokenizer.ggml.model", "llama");
  std::vector<float> scores(23);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = -static_cast<float>(i);
  spaced.Add("tokenizer.ggml.scores", 9, GgufBytes::Numbers(6, scores));
  const Tokenizer bytes = Overlapping(merged,
                                      {"<|end|>", "a", "b", "\u0120", "<", ">", "|", "ab", "bbbbb", "abb", "bbab",
                                       "<|a|>", "|><|bb", "><", "bb", "\u0120a", " a", "<unk>"},
                                      {3, 1, 1, 1, 1, 1, 1, 1, 4, 4, 3, 3, 4, 4, 1, 1, 4, 2}),
                  pieces = Overlapping(spaced, {"<unk>",        "<s>", "</s>",  "<ud>", "   ",     "<|end|>",
                                                "\u2581",       "a",   "b",     "ab",   "\u2581a", "\u2581ab",
                                                "\u2581\u2581", "\n",  "bbbbb", "abb",  "bbab",    "<|a|>",
                                                "|><|bb",       "><",  "<",     ">",    "|"},
                                       {2, 3, 3, 4, 4, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 3, 3, 4, 4, 1, 1, 1});
  const std::tuple<const char*, std::vector<int32_t>, std::vector<int32_t>> cases[]{
      {"abbbb", {9, 14}, {15, 6, 8, 8}},
      {"abbbbb", {1, 8}, {10, 14}},
      {"abbab", {1, 10}, {10, 16}},
      {"abbbab", {7, 10}, {11, 16}},
      {"<|a|><|bb", {4, 6, 1, 12}, {6, 20, 22, 7, 18}},
      {"<|a|>|><|bb<|a|>", {11, 12, 11}, {17, 18, 17}},
      {"<|a|><|a|><|b", {11, 11, 4, 6, 2}, {17, 17, 6, 20, 22, 8}},
      {"a abbb", {1, 3, 9, 2}, {10, 6, 15, 6, 8}},
      {"a<unk>b", {1, 17, 2}, {10, 0, 6, 8}},  // an unknown token, too
  };
  for (const auto& [text, of_bytes, of_pieces] : cases) {
    EXPECT_EQ(bytes.Encode(text), of_bytes) << text;
    EXPECT_EQ(pieces.Encode(text), of_pieces) << text;
  }
}

}  // namespace
}  // namespace tare::gguf_tokenizer_test
