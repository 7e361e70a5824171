// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::token_input_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

namespace fs = std::filesystem;

const fs::path kPair = TARE_SOURCE_DIR "/experiments/pair/novels-standard";
constexpr int kVocabulary = 2048;

class TokenInputTest : public ::testing::Test {
 protected:
  fs::path WriteText(const std::string& text) {
    PutFile(folder_ / "text.txt", text);
    return folder_ / "text.txt";
  }
  template <typename T>
  fs::path WriteIds(DType dtype, const std::vector<T>& ids, const std::vector<int64_t>& shape) {
    const float other = 1;
    WriteSafetensors(folder_ / "ids.safetensors",
                     {{"input_ids", dtype, shape, std::as_bytes(std::span(ids))},
                      {"attention_mask", DType::kF32, {1}, std::as_bytes(std::span(&other, 1))}});
    return folder_ / "ids.safetensors";
  }
  template <typename T>
  fs::path WriteHdf5(const std::vector<T>& ids, const std::vector<int64_t>& shape, const char* extension = "h5") {
    const fs::path path = folder_ / (std::string("ids.") + extension);
    Hdf5Writer writer(path);
    writer.WriteDataset<T>("input_ids", shape, std::span(ids));
    writer.Commit();
    return path;
  }
  static TokenInput Load(const fs::path& path) { return LoadTokenInput(path, kPair, kVocabulary); }

  TemporaryFolder folder_;
};

TEST_F(TokenInputTest, TextIsOneRowBehindBos) {
  const fs::path path = WriteText("Hello, world!");
  const TokenInput input = Load(path);
  EXPECT_EQ(input.kind, TokenInput::Kind::kText);
  EXPECT_THAT(input.sequences, ElementsAre(ElementsAre(456, 290, 1979, 1994, 1080, 2012)));
  EXPECT_EQ(input.bos, 1);
  EXPECT_EQ(input.path, path);
  EXPECT_EQ(input.sha256, Sha256OfFile(path));
}

// Names of keys would be scored; a text that begins with a brace is none of these.
TEST_F(TokenInputTest, ItemsAreNoText) {
  EXPECT_THAT(Call([&] { Load(TARE_SOURCE_DIR "/experiments/pair/needles-4.jsonl"); }),
              ThrowsMessage<Error>(HasSubstr("needles-4.jsonl: got lines of JSON, expected a text")));
  EXPECT_NO_THROW(Load(WriteText("{ It was } dark.\n")));
  EXPECT_NO_THROW(Load(WriteText("{\n  \"a\": 1\n}\n")));
  EXPECT_NO_THROW(Load(WriteText("\"It was dark.\"\n")));
}

TEST_F(TokenInputTest, BadTexts) {
  EXPECT_THAT(Call([&] { Load(WriteText("")); }), ThrowsMessage<Error>(HasSubstr("text.txt: got an empty file")));
  EXPECT_THAT(Call([&] { Load(WriteText("   ")); }),
              ThrowsMessage<Error>(HasSubstr("text.txt: got nothing but spaces")));
  EXPECT_THAT(Call([&] { Load(WriteText("a\nb\xff")); }),
              ThrowsMessage<Error>(HasSubstr("text.txt: got byte 0xff at offset 3 (line 2)")));
  EXPECT_THROW(Load(folder_ / "missing.txt"), Error);
  EXPECT_THROW(Load(folder_ / "missing.h5"), Error);
  EXPECT_THAT(Call([&] { LoadTokenInput(WriteText("a"), folder_.path(), kVocabulary); }),
              ThrowsMessage<Error>(HasSubstr("no tokenizer.json or tokenizer.model")));
}

// As gemma-3-1b has one piece more than rows.
TEST_F(TokenInputTest, PiecesWithoutARowAreRefusedWhereATextHasThem) {
  EXPECT_THAT(LoadTokenInput(WriteText("Hello, world!"), kPair, 2013).sequences.at(0), Contains(2012));
  EXPECT_THAT(Call([&] { LoadTokenInput(WriteText("Hello, world!"), kPair, 2012); }),
              ThrowsMessage<Error>(HasSubstr("text.txt: got id 2012 at token 5, expected 0 to 2011")));
}

// The text's own `<s>` is the one that its windows begin with.
TEST_F(TokenInputTest, ATextThatBeginsWithTheBosIsAsIfItDidNot) {
  const std::vector<std::vector<int32_t>> without{{456, 290, 1979, 1994, 1080, 2012}};
  fs::copy(kPair / "tokenizer.model", folder_ / "tokenizer.model");
  PutFile(folder_ / "tokenizer_config.json", R"({"legacy": true})");  // whose text after `<s>` is as at the beginning
  EXPECT_EQ(LoadTokenInput(WriteText("<s>Hello, world!"), folder_.path(), kVocabulary).sequences, without);
  EXPECT_EQ(LoadTokenInput(WriteText("<s>Hello, world!"), folder_.path(), kVocabulary, {.first = 2}).sequences.at(0),
            (std::vector<int32_t>{456, 290}));
  PutFile(folder_ / "tokenizer_config.json", R"({"legacy": true, "add_bos_token": false})");
  EXPECT_EQ(LoadTokenInput(WriteText("<s>Hello"), folder_.path(), kVocabulary).sequences.at(0).front(), 1);
}

TEST_F(TokenInputTest, EveryIntegerTypeAndBothShapes) {
  const auto rows = ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 127));
  const auto check = [&]<typename T>(T) {
    const std::vector<T> ids = {1, 2, 3, 4, 5, 127};
    for (const fs::path& path : {WriteIds<T>(DTypeOf<T>(), ids, {2, 3}), WriteHdf5<T>(ids, {2, 3})}) {
      const TokenInput input = LoadTokenInput(path, "", kVocabulary);  // needs no tokenizer
      EXPECT_EQ(input.kind, TokenInput::Kind::kIds);
      EXPECT_THAT(input.sequences, rows) << path << Name(DTypeOf<T>());
      EXPECT_EQ(input.bos, std::nullopt);
      EXPECT_EQ(input.sha256, Sha256OfFile(path));
    }
  };
  check(int8_t{}), check(uint8_t{}), check(int16_t{}), check(uint16_t{});
  check(int32_t{}), check(uint32_t{}), check(int64_t{}), check(uint64_t{});
  const std::vector<int64_t> ids = {7, 8};
  EXPECT_THAT(Load(WriteIds<int64_t>(DType::kI64, ids, {2})).sequences, ElementsAre(ElementsAre(7, 8)));
  EXPECT_THAT(Load(WriteHdf5<int64_t>(ids, {2}, "hdf5")).sequences, ElementsAre(ElementsAre(7, 8)));
}

TEST_F(TokenInputTest, IdsOutsideTheVocabularyAreNamed) {
  const auto outside = [](const char* id) {
    return ThrowsMessage<Error>(
        AllOf(HasSubstr(std::string("got id ") + id + " at row 1, position 0"), HasSubstr("expected 0 to 2047")));
  };
  EXPECT_THAT([&] { Load(WriteIds<int64_t>(DType::kI64, {0, 2047, 2048, -1}, {2, 2})); }, outside("2048"));
  EXPECT_THAT([&] { Load(WriteIds<int64_t>(DType::kI64, {0, 1, -1, 2}, {2, 2})); }, outside("-1"));
  EXPECT_THAT([&] { Load(WriteIds<int64_t>(DType::kI64, {0, 1, 4294967296, 2}, {2, 2})); }, outside("4294967296"));
  EXPECT_THAT([&] { Load(WriteHdf5<int32_t>({0, 1, 50000, 2}, {2, 2})); }, outside("50000"));
  EXPECT_THROW(Load(WriteIds<uint64_t>(DType::kU64, {~uint64_t{0}}, {1})), Error);
  EXPECT_THROW(Load(WriteHdf5<uint64_t>({~uint64_t{0}}, {1})), Error);
}

TEST_F(TokenInputTest, OtherShapesTypesAndNames) {
  EXPECT_THAT(Call([&] { Load(WriteIds<int32_t>(DType::kI32, {1, 2}, {1, 1, 2})); }),
              ThrowsMessage<Error>(HasSubstr("got shape [1, 1, 2]")));
  EXPECT_THAT(Call([&] { Load(WriteIds<int32_t>(DType::kI32, {1}, {})); }),
              ThrowsMessage<Error>(HasSubstr("got shape []")));
  EXPECT_THAT(Call([&] { Load(WriteIds<int32_t>(DType::kI32, {}, {3, 0})); }),
              ThrowsMessage<Error>(HasSubstr("got shape [3, 0], expected at least one")));
  EXPECT_THAT(Call([&] { Load(WriteIds<float>(DType::kF32, {1}, {1})); }),
              ThrowsMessage<Error>(HasSubstr("input_ids: got values of type F32")));
  EXPECT_THAT(Call([&] { Load(WriteHdf5<double>({1}, {1})); }),
              ThrowsMessage<Error>(HasSubstr("input_ids: got values of type F64")));
  const int64_t id = 1;
  const auto bytes = std::as_bytes(std::span(&id, 1));
  WriteSafetensors(folder_ / "ids.safetensors", {{"a", DType::kI64, {1}, bytes}, {"b", DType::kI64, {1}, bytes}});
  EXPECT_THAT(Call([&] { Load(folder_ / "ids.safetensors"); }),
              ThrowsMessage<Error>(HasSubstr("input_ids: no such array in the file: got 'a', 'b', expected")));
  Hdf5Writer(folder_ / "ids.h5").Commit();
  EXPECT_THAT(Call([&] { Load(folder_ / "ids.h5"); }),
              ThrowsMessage<Error>(HasSubstr("input_ids: no such array in the file: got none, expected")));
}

std::string LongText(const std::string& line, size_t bytes = kLongText) {
  std::string text;
  while (text.size() < bytes) text += line + " " + std::to_string(text.size()) + "\n\n";
  return text;
}

std::vector<int32_t> FirstOf(const Tokenizer& tokenizer, std::string_view text, size_t tokens) {
  std::vector<int32_t> ids = tokenizer.Encode(text);
  ids.resize(std::min(ids.size(), tokens));
  return ids;
}

TEST(TextWindowsTest, LongTextsOfWhichLittleIsAsked) {
  const TextPart part{.windows = 4, .positions = 512};
  EXPECT_TRUE(ReadInWindows(part, kLongText));
  EXPECT_FALSE(ReadInWindows(part, kLongText - 1));
  EXPECT_FALSE(ReadInWindows({.first = 9}, kLongText));
  // A window takes at most half of its part, at 16 bytes per token.
  EXPECT_TRUE(ReadInWindows({.windows = 1024, .positions = 512}, kLongText));
  EXPECT_FALSE(ReadInWindows({.windows = 1025, .positions = 512}, kLongText));
}

// The ids of what follows the middle of each part, from the next line on.
TEST(TextWindowsTest, BeginAtLines) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const std::string text = LongText("It was a dark night; nobody went out, and the dogs slept.", 1 << 20);
  const auto windows = EncodeWindows(tokenizer, text, {.windows = 3, .positions = 64}, "text");
  ASSERT_THAT(windows, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    const size_t begin = text.find("It", text.size() / 3 * (i + 1) - text.size() / 6);
    EXPECT_EQ(windows[i], FirstOf(tokenizer, std::string_view(text).substr(begin, 4096), 63)) << i;
  }
}

// Where no line begins near, from the next word on, or the next character.
TEST(TextWindowsTest, OfOneLine) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const auto of = [&](const std::string& text) {
    return EncodeWindows(tokenizer, text, {.windows = 1, .positions = 9}, "text").at(0);
  };
  std::string words, letters;
  while (words.size() < 1 << 20) words += "the night was dark ";
  const size_t word = words.find(' ', words.size() / 2) + 1;
  EXPECT_EQ(of(words), FirstOf(tokenizer, std::string_view(words).substr(word, 4096), 8));
  while (letters.size() < 1 << 20) letters += "\u00e9\u00e8\u00e7";  // of two bytes each
  letters += "a";
  EXPECT_THAT(of(letters), SizeIs(8));
}

// Parts end within characters of two bytes, and lines may be longer than parts: every window is there, and full.
TEST(TextWindowsTest, ManyOfAnyText) {
  const Tokenizer tokenizer = Tokenizer::Load(kPair);
  const std::string word = "\u00e9t\u00e9 ", line = [&] {
    std::string words;
    while (words.size() < 300000) words += word;
    return words;
  }();
  for (const std::string& repeated : {word, line + "\n", word + "\n"}) {
    std::string text = "a";
    while (text.size() < 13 * 275000) text += repeated;
    const auto windows = EncodeWindows(tokenizer, text, {.windows = 13, .positions = 64}, "text");
    ASSERT_THAT(windows, SizeIs(13)) << repeated.size();
    for (const std::vector<int32_t>& ids : windows) ASSERT_THAT(ids, SizeIs(63));
  }
}

TEST(TextWindowsTest, BytesThatAreNoUtf8AreToldAtOnce) {
  EXPECT_THAT(
      [] {
        EncodeWindows(Tokenizer::Load(kPair), std::string(kLongText, '\x80'), {.windows = 99999, .positions = 3},
                      "text");
      },
      ThrowsMessage<Error>(HasSubstr("text: got byte 0x80 at offset 0")));
}

TEST(TextWindowsTest, OfNothingButSpacesAtTheirPlaces) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_THAT(EncodeWindows(Tokenizer::Load(kPair), spaces, {.windows = 2, .positions = 9}, "text"), SizeIs(0));
}

class LongInputTest : public ::testing::Test {
 protected:
  LongInputTest() {
    for (int i = 0; i < 99; ++i) lines_ += "\nThe old man looked at her.";
  }
  TokenInput Load(const std::string& text) {
    PutFile(folder_ / "text.txt", text);
    return LoadTokenInput(folder_ / "text.txt", kPair, 2048, {.windows = 2, .positions = 16});
  }
  std::string lines_ = "The old man looked at her.";
  TemporaryFolder folder_;
};

TEST_F(LongInputTest, IsReadInWindows) {
  const TokenInput input = Load(LongText(lines_));
  EXPECT_TRUE(input.in_windows);
  EXPECT_FALSE(input.whole);
  EXPECT_THAT(input.sequences, ElementsAre(SizeIs(15), SizeIs(15)));
  EXPECT_THAT([&] { Load(std::string(kLongText, ' ')); }, ThrowsMessage<Error>(HasSubstr("got nothing but spaces")));
  // Where windows would stand are spaces alone: all is read.
  const TokenInput other = Load("The old man looked at her." + std::string(kLongText, ' '));
  EXPECT_FALSE(other.in_windows);
  EXPECT_TRUE(other.whole);
}

// As of the whole text; what comes long after them is not read.
TEST_F(LongInputTest, FirstTokens) {
  std::string text = LongText(lines_);
  const std::vector<int32_t> first = FirstOf(Tokenizer::Load(kPair), std::string_view(text).substr(0, 1 << 20), 300);
  text[1 << 20] = '\xff';
  PutFile(folder_ / "text.txt", text);
  const TokenInput input = LoadTokenInput(folder_ / "text.txt", kPair, 2048, {.first = 300});
  EXPECT_THAT(input.sequences, ElementsAre(first));
  EXPECT_FALSE(input.whole || input.in_windows);
}

TEST_F(LongInputTest, MustBeUtf8WhereItIsRead) {
  std::string text = LongText(lines_);
  text[0] = '\xff';
  EXPECT_THAT(Load(text).sequences, SizeIs(2));
  text[0] = 'T';
  text[text.size() / 4 + 100] = '\xff';
  EXPECT_THAT([&] { Load(text); }, ThrowsMessage<Error>(HasSubstr("text.txt: got byte 0xff")));
}

}  // namespace
}  // namespace tare::token_input_test
