// SPDX-License-Identifier: Apache-2.0
// Golden: tests/data/predictions has a base file as llama.cpp's perplexity.cpp writes it, byte for byte, and what its
// functions make of it, to 1e-6. The small base file of tests/fuzz/corpus/predictions is forged here.
#include "experiments/arrays/array_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare::predictions_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kGolden = TARE_SOURCE_DIR "/tests/data/predictions";
const std::string kBase = GetFile(TARE_SOURCE_DIR "/tests/fuzz/corpus/predictions/base.kld");

// The message of what it throws; "" for nothing.
std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Prediction ReadRow(const Predictions& all, int64_t window, int64_t position) {
  return all.Read(all.Rows(window, position, 1), 0, window, position);
}

class PredictionsTest : public testing::Test {
 protected:
  std::string Refused(const std::string& bytes) {
    PutFile(folder_ / "f.kld", bytes);
    return MessageOf([&] {
      const Predictions all = OpenPredictions(folder_ / "f.kld");
      for (int64_t position = all.first; position < all.positions - 1; ++position) ReadRow(all, 0, position);
    });
  }
  std::string Refused(const TensorView& logits, const TensorView& ids) {
    WriteSafetensors(folder_ / "f.safetensors", {logits, ids});
    return MessageOf([&] { ReadRow(OpenPredictions(folder_ / "f.safetensors"), 0, 0); });
  }

  TemporaryFolder folder_;
};

// With four bytes replaced.
template <typename T>
std::string With(std::string bytes, size_t at, T value) {
  return bytes.replace(at, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
}

TEST_F(PredictionsTest, DecodesWhatLlamaCppDecodes) {
  const Predictions all = OpenPredictions(kGolden / "kld_base.bin");
  const Safetensors golden(kGolden / "kld.safetensors");
  const auto expected = ValuesOf<float>(golden, "log_probs_decoded"), logits = ValuesOf<float>(golden, "logits_base");
  EXPECT_EQ(all.tokens, ValuesOf<int32_t>(golden, "tokens"));
  ASSERT_EQ(all.windows * (all.positions - 1 - all.first), 14);
  for (size_t row = 0; row < 14; ++row) {
    const Prediction read = ReadRow(all, static_cast<int64_t>(row) / 7, 8 + static_cast<int64_t>(row) % 7);
    for (size_t i = 0; i < 97; ++i) EXPECT_EQ(read.values[i], expected[97 * row + i]) << row << " " << i;
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(97 * row);
    EXPECT_EQ(read.top, static_cast<size_t>(std::max_element(first, first + 97) - first));
    EXPECT_EQ(read.total, 0);
  }
  EXPECT_EQ(ReadRow(all, 1, 14).values[96], expected.back());
}

TEST_F(PredictionsTest, NormalizesLogitsOfHalfWidthAndOfOneWindow) {
  const std::vector<uint16_t> logits{0x3c00, 0x3c00, 0xbc00, 0x0000, 0, 0};  // 1, 1, -1; 0, 0, 0
  const std::vector<int64_t> ids{2, 1};
  WriteSafetensors(folder_ / "f.safetensors", {{"logits", DType::kF16, {2, 3}, std::as_bytes(std::span(logits))},
                                               {"input_ids", DType::kI64, {2}, std::as_bytes(std::span(ids))}});
  const Predictions all = OpenPredictions(folder_ / "f.safetensors");
  EXPECT_EQ(all.windows, 1);
  EXPECT_EQ(all.first, 0);
  const Prediction read = ReadRow(all, 0, 0);
  EXPECT_EQ(read.top, 0u);
  EXPECT_NEAR(read.LogP(2), -1 - std::log(2 * std::exp(1.0) + std::exp(-1.0)), 1e-6);
}

// Seven tokens in windows of three: the last is left over.
TEST_F(PredictionsTest, CutsATextIntoWindows) {
  std::vector<float> logits(14);
  for (size_t i = 0; i < 14; ++i) logits[i] = i % 2 == 0 ? static_cast<float>(i) : 0.0f;
  const std::vector<int32_t> ids{0, 1, 0, 1, 0, 1, 0};
  WriteSafetensors(folder_ / "f.safetensors", {{"logits", DType::kF32, {7, 2}, std::as_bytes(std::span(logits))},
                                               {"input_ids", DType::kI32, {7}, std::as_bytes(std::span(ids))}});
  const Predictions all = OpenPredictions(folder_ / "f.safetensors", 3);
  EXPECT_EQ(all.windows, 2);
  EXPECT_EQ(all.tokens, (std::vector<int32_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_NEAR(ReadRow(all, 1, 1).LogP(1), -std::log(1 + std::exp(8.0)), 1e-6);
  EXPECT_EQ(OpenPredictions(folder_ / "f.safetensors", 0, &all).windows, 2);  // as the reference
  EXPECT_EQ(OpenPredictions(folder_ / "f.safetensors").windows, 1);
  EXPECT_THAT(MessageOf([&] { OpenPredictions(folder_ / "f.safetensors", 8); }),
              HasSubstr("f.safetensors: got 7 tokens, expected windows of 8"));
}

TEST_F(PredictionsTest, TakesTheReferencesTokensWhereTheFileHasNone) {
  const Predictions base = OpenPredictions(TARE_SOURCE_DIR "/tests/fuzz/corpus/predictions/base.kld");
  const std::vector<float> logits(static_cast<size_t>(18 * base.vocabulary));
  WriteSafetensors(folder_ / "f.safetensors",
                   {{"logits", DType::kF32, {18, base.vocabulary}, std::as_bytes(std::span(logits))}});
  const Predictions all = OpenPredictions(folder_ / "f.safetensors", 0, &base);
  EXPECT_EQ(all.windows, 3);
  EXPECT_EQ(all.tokens, base.tokens);
  EXPECT_THAT(MessageOf([&] { OpenPredictions(folder_ / "f.safetensors"); }),
              HasSubstr("and input_ids none, expected"));
}

TEST_F(PredictionsTest, ChecksEverySizeOfABaseFile) {
  EXPECT_EQ(Refused(kBase), "");
  EXPECT_THAT(Refused(kBase.substr(0, 283)),
              HasSubstr("f.kld: got 283 bytes, expected 20 and 88 for each of 3 windows"));
  EXPECT_THAT(Refused(kBase + "x"), HasSubstr("got 285 bytes"));
  EXPECT_THAT(Refused(kBase.substr(0, 19)), HasSubstr("got 19 bytes, expected 20 or more"));
  EXPECT_THAT(Refused(With(kBase, 8, 2)), HasSubstr("got 3 windows of 2 tokens and a vocabulary of 11"));
  EXPECT_THAT(Refused(With(kBase, 12, -11)), HasSubstr("a vocabulary of -11"));
  EXPECT_THAT(Refused(With(kBase, 16, 0)), HasSubstr("got 0 windows"));
  EXPECT_THAT(Refused(With(With(With(kBase, 8, 0x7fffffff), 12, 0x7fffffff), 16, 0x7fffffff)),
              HasSubstr("for each of 2147483647 windows"));
  EXPECT_THAT(Refused(With(kBase, 24, 11)), HasSubstr("token 1: got id 11, expected 0 to 10"));
  EXPECT_THAT(Refused(With(kBase, 24, -1)), HasSubstr("token 1: got id -1"));
}

TEST_F(PredictionsTest, NamesRowsThatAreNoDistribution) {
  const size_t row = 20 + 4 * 18;  // scale, lowest
  for (const float scale : {NAN, INFINITY, 1.0f})
    EXPECT_THAT(Refused(With(kBase, row, scale)), HasSubstr("window 0, position 3: got p that sum to")) << scale;
  EXPECT_THAT(Refused(With(kBase, row + 4, -60.0f)), HasSubstr("position 3"));
  const std::vector<int32_t> ids{0, 1};
  for (const float wrong : {NAN, INFINITY, -INFINITY}) {
    const std::vector<float> logits{1, wrong, 2, 0, 0, 0};
    EXPECT_THAT(Refused({"logits", DType::kF32, {1, 2, 3}, std::as_bytes(std::span(logits))},
                        {"input_ids", DType::kI32, {1, 2}, std::as_bytes(std::span(ids))}),
                HasSubstr("f.safetensors: window 0, position 0: got p that sum to"))
        << wrong;
  }
}

TEST_F(PredictionsTest, RefusesLogitsOfOtherShapesThanTheirTokens) {
  const std::vector<float> logits(12);
  const std::vector<int32_t> ids(4);
  const auto refused = [&](std::vector<int64_t> of_logits, std::vector<int64_t> of_ids, DType type = DType::kI32) {
    return Refused({"logits", DType::kF32, of_logits, std::as_bytes(std::span(logits))},
                   {"input_ids", type, of_ids, std::as_bytes(std::span(ids))});
  };
  EXPECT_EQ(refused({2, 2, 3}, {2, 2}), "");
  EXPECT_THAT(refused({2, 2, 3}, {4}),
              AllOf(HasSubstr("f.safetensors: got logits F32 [2, 2, 3]"),
                    HasSubstr("input_ids I32 [4], expected f32, f16, bf16 or f64 [windows, T, V]")));
  EXPECT_THAT(refused({2, 2, 3}, {2, 2}, DType::kF32), HasSubstr("input_ids F32"));
  EXPECT_THAT(refused({4, 1, 3}, {4, 1}), HasSubstr("got logits F32 [4, 1, 3]"));
  const std::vector<uint16_t> half{0x3c00, 0x7c00, 0, 0};
  EXPECT_THAT(
      Refused({"logits", DType::kF16, {2, 2}, std::as_bytes(std::span(half))},
              {"input_ids", DType::kI32, {2}, std::as_bytes(std::span(ids).first(2))}),
      HasSubstr("position 0: got p that sum to -nan, the least ln p 0; expected 1, and a finite one; f16 overflows"));
  const std::vector<float> one{1};
  EXPECT_THAT(Refused({"logits", DType::kF32, {}, std::as_bytes(std::span(one))},
                      {"input_ids", DType::kI32, {4}, std::as_bytes(std::span(ids))}),
              HasSubstr("got logits F32 []"));
  EXPECT_THAT(refused({12}, {2, 2}), HasSubstr("got logits F32 [12]"));
  WriteSafetensors(folder_ / "none.safetensors", {});
  EXPECT_THAT(MessageOf([&] { OpenPredictions(folder_ / "none.safetensors"); }),
              HasSubstr("got logits none and input_ids none"));
  EXPECT_THAT(Refused("notes of mine"), HasSubstr("f.kld: got 13 bytes, expected 20 or more that begin with _logits_"));
}

// The golden logits: constant, one 50 above the others, a spread of 1e-6, one beyond 16, two equal tops.
TEST_F(PredictionsTest, WritesLlamaCppsBytes) {
  const Safetensors golden(kGolden / "kld.safetensors");
  const auto logits = ValuesOf<float>(golden, "logits_base");
  const auto tokens = ValuesOf<int32_t>(golden, "tokens");
  BaseFileWriter file(folder_ / "b.kld", {.positions = 16, .vocabulary = 97, .windows = 2},
                      std::vector<int64_t>(tokens.begin(), tokens.end()));
  ParallelFor(14, [&](size_t row, int) {
    file.Write(static_cast<int64_t>(row / 7), 8 + static_cast<int64_t>(row % 7),
               std::span(logits).subspan(97 * row, 97));
  });
  file.Commit();
  EXPECT_EQ(GetFile(folder_ / "b.kld"), GetFile(kGolden / "kld_base.bin"));
}

TEST_F(PredictionsTest, WritesNoLogitThatIsNotFinite) {
  const std::vector<int64_t> tokens{0, 1, 1, 0};
  BaseFileWriter file(folder_ / "b.kld", {.positions = 4, .vocabulary = 2, .windows = 1}, tokens);
  for (const float odd : {NAN, INFINITY, -INFINITY})
    EXPECT_THAT(MessageOf([&] { file.Write(0, 2, std::vector{1.0f, odd}); }),
                HasSubstr("b.kld: window 0, position 2: got logit "));
  EXPECT_THAT(MessageOf([&] { BaseFileWriter(folder_ / "c.kld", {2, 2, 1}, tokens); }),
              HasSubstr("c.kld: got windows of 2 tokens, expected 3 or more"));
}

}  // namespace
}  // namespace tare::predictions_test
