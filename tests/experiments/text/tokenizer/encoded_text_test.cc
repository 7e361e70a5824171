// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/encoded_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::encoded_text_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";

class EncodedTextTest : public ::testing::Test {
 protected:
  EncodedTextTest() {
    for (const char* name : {"tokenizer.model", "config.json"}) fs::copy(kPair / name, folder_ / name);
  }
  EncodedText Encoded(const std::string& text, size_t first = SIZE_MAX) {
    return EncodeText(text, Sha256Hex(std::as_bytes(std::span(text))), folder_.path(), {.first = first}, "text");
  }

  TemporaryFolder folder_;
};

TEST_F(EncodedTextTest, TheSameForAllThatAsk) {
  const EncodedText hello = Encoded("Hello, world!");
  EXPECT_THAT(hello.rows.at(0), ElementsAre(456, 290, 1979, 1994, 1080, 2012));
  EXPECT_EQ(hello.bos, 1);
  EXPECT_EQ(hello.vocabulary, 2048);
  EXPECT_EQ(Encoded("Hello, world!").rows, hello.rows);
}

// By what the files hold, wherever they are, until four others took its place. Another text under its hash tells.
TEST_F(EncodedTextTest, IsEncodedOnce) {
  const auto under = [&](const char* hash, const char* text) {
    return EncodeText(text, hash, folder_.path(), {.first = 9}, "text").rows;
  };
  const std::vector<std::vector<int32_t>> hello = under("hash of a test", "Hello, world!");
  EXPECT_EQ(under("hash of a test", "another"), hello);
  EXPECT_EQ(EncodeText("another", "hash of a test", kPair, {.first = 9}, "text").rows, hello);
  for (const char* other : {"1", "2", "3", "4"}) under(other, other);
  EXPECT_NE(under("hash of a test", "another"), hello);
}

TEST_F(EncodedTextTest, AnotherTextOrTokenizerUnderTheSameName) {
  const EncodedText hello = Encoded("Hello, world!");
  EXPECT_NE(Encoded("Hello, World!").rows, hello.rows);
  EXPECT_THAT(Encoded("Hello, world!", 3).rows.at(0), ElementsAre(456, 290, 1979));
  PutFile(folder_ / "tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_FALSE(Encoded("Hello, world!").bos);
}

}  // namespace
}  // namespace tare::encoded_text_test
