// SPDX-License-Identifier: Apache-2.0
// Pieces of a text, one token after another, are the text.
#include "experiments/passes/text_stream.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/golden.h"

namespace tare {
namespace {

TEST(TextStreamTest, PiecesMakeTheText) {
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  const std::string text = "It was a na\u00efve night \u2014 \U0001F642 \U0001F642, he said:\n  \"two  spaces\"";
  const std::vector<int32_t> all = tokenizer.Encode(text);
  for (const size_t before : {size_t{0}, size_t{3}, all.size() - 1}) {
    const std::vector<int32_t> prompt(all.begin(), all.begin() + static_cast<ptrdiff_t>(before));
    TextStream stream(tokenizer, prompt);
    std::string grown = tokenizer.Decode(prompt);
    for (size_t i = before; i < all.size(); ++i) {
      const std::string more = stream.Add(all[i]);
      EXPECT_FALSE(more.contains("\uFFFD")) << i;
      grown += more;
    }
    EXPECT_EQ(grown + stream.Rest(), tokenizer.Decode(all)) << before;
    EXPECT_EQ(stream.Rest(), "");
  }
}

// A text that ends in the middle of a character: what there is of it comes at the end.
TEST(TextStreamTest, HalfACharacterWaits) {
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  std::vector<int32_t> tokens = tokenizer.Encode("so \U0001F642");
  tokens.pop_back();
  TextStream stream(tokenizer, {});
  std::string grown;
  for (const int32_t token : tokens) grown += stream.Add(token);
  EXPECT_EQ(grown, "so ");
  EXPECT_NE(stream.Rest(), "");
}

}  // namespace
}  // namespace tare
