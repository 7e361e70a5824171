// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/token_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::token_input_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

TEST_F(TokenInputTest, BadTexts) {
  EXPECT_THAT(Call([&] { Load(WriteText("")); }), ThrowsMessage<Error>(HasSubstr("text.txt: got an empty file")));
  EXPECT_THAT(Call([&] { Load(WriteText("   ")); }),
              ThrowsMessage<Error>(HasSubstr("text.txt: got nothing but spaces")));
  EXPECT_THAT(Call([&] { Load(WriteText("a\nb\xff")); }),
              ThrowsMessage<Error>(HasSubstr("text.txt: got byte 0xff at offset 3 (line 2)")));
  EXPECT_THROW(Load(folder_ / "missing.txt"), Error);
  EXPECT_THROW(Load(folder_ / "missing.h5"), Error);
  EXPECT_THAT(Call([&] { LoadTokenInput(WriteText("a"), kPair, 2047); }),
              ThrowsMessage<Error>(HasSubstr("2048 pieces")));
  EXPECT_THAT(Call([&] { LoadTokenInput(WriteText("a"), folder_.path(), kVocabulary); }),
              ThrowsMessage<Error>(HasSubstr("no tokenizer.json or tokenizer.model")));
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
              ThrowsMessage<Error>(HasSubstr("input_ids: no such tensor in the file: got 'a', 'b', expected")));
  Hdf5Writer(folder_ / "ids.h5").Commit();
  EXPECT_THAT(Call([&] { Load(folder_ / "ids.h5"); }),
              ThrowsMessage<Error>(HasSubstr("input_ids: no such dataset in the file: got none, expected")));
}

}  // namespace
}  // namespace tare::token_input_test
