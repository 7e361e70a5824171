// SPDX-License-Identifier: Apache-2.0
// The tokenizers inside GGUF files give the ids that their source's own library gives (tests/data/gguf).
#include <gtest/gtest.h>

#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"

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

}  // namespace
}  // namespace tare::gguf_tokenizer_test
