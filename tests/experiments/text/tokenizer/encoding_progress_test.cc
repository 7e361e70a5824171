// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/encoding_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "experiments/text/tokenizer/tokenizer.h"

namespace tare::encoding_progress_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<int64_t, int64_t>> shown;

class EncodingProgressTest : public testing::Test {
 protected:
  EncodingProgressTest() {
    shown.clear();
    OnEncoding([](int64_t done, int64_t bytes) { shown.emplace_back(done, bytes); });
  }
  ~EncodingProgressTest() override { OnEncoding(nullptr); }
};

// A blank became a character of three bytes, and another two of each text have two.
TEST_F(EncodingProgressTest, CountsCharactersAndShowsBytes) {
  std::string text, pieces;
  for (int i = 0; i < 400'000; ++i) text += "\u00e4 b\u00e4 ", pieces += "\u00e4\u2581b\u00e4\u2581";
  {
    const EncodingProgress progress(text);
    EncodingProgress::Add(std::string_view(pieces).substr(0, pieces.size() / 4));
    EXPECT_THAT(shown, IsEmpty());
    EncodingProgress::Add(std::string_view(pieces).substr(pieces.size() / 4, pieces.size() / 4));
    EXPECT_THAT(shown, ElementsAre(Pair(text.size() / 2, text.size())));
  }
  EXPECT_THAT(shown, ElementsAre(Pair(text.size() / 2, text.size()), Pair(text.size(), text.size())));
  EncodingProgress::Add(pieces);  // of no text
  EXPECT_EQ(shown.size(), 2u);
}

TEST_F(EncodingProgressTest, OfATokenizer) {
  const Tokenizer tokenizer = Tokenizer::Load(TARE_SOURCE_DIR "/experiments/pair/novels-standard");
  std::string text;
  while (text.size() < 2'500'000) text += "It was a dark and stormy night.\n";
  EXPECT_GT(tokenizer.Encode(text).size(), 500'000u);
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_NEAR(static_cast<double>(shown[0].first), 1e6, 1e4);
  EXPECT_NEAR(static_cast<double>(shown[1].first), 2e6, 1e4);
  EXPECT_EQ(shown[2].first, text.size());
  shown.clear();
  tokenizer.EncodeFirst(text, 400'000);  // of an unknown share
  EXPECT_THAT(shown, IsEmpty());
}

}  // namespace
}  // namespace tare::encoding_progress_test
