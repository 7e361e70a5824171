// SPDX-License-Identifier: Apache-2.0
// tare judge on llama.cpp's own numbers (tests/data/predictions), and on made files of thirty windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/golden.h"

namespace tare::judge_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::filesystem::path kGolden = TARE_SOURCE_DIR "/tests/data/predictions";

// A text of `windows` windows of 6 tokens with a vocabulary of 11.
struct Logits {
  int64_t windows = 30;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(windows) * 66);
  std::vector<int32_t> ids = std::vector<int32_t>(static_cast<size_t>(windows) * 6);

  // From a seed, and then moved by noise of another.
  explicit Logits(float noise, unsigned seed) {
    std::mt19937 text(1), moved(seed);
    const auto uniform = [](std::mt19937& random) { return static_cast<float>(random() % 2001) / 1000 - 1; };
    for (int32_t& id : ids) id = static_cast<int32_t>(text() % 11);
    for (float& x : values) x = 3 * uniform(text) + noise * uniform(moved);
  }
  void Put(const std::filesystem::path& path) const {
    WriteSafetensors(path, {{"logits", DType::kF32, {windows, 6, 11}, std::as_bytes(std::span(values))},
                            {"input_ids", DType::kI32, {windows, 6}, std::as_bytes(std::span(ids))}});
  }
};

double LogP(const Logits& of, size_t row, size_t token) {
  double sum = 0;
  for (size_t i = 0; i < 11; ++i) sum += std::exp(double{of.values[11 * row + i]});
  return of.values[11 * row + token] - std::log(sum);
}

Json Judged(std::vector<std::string> files) {
  files.insert(files.begin(), "judge");
  files.insert(files.end(), {"--json", "-"});
  const Outcome outcome = CallTare(files);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

const Json& Cell(const Json& judged, const std::string& model, const std::string& task) {
  for (const Json& cell : judged.at("cells"))
    if (cell.at("model") == model && cell.at("task") == task) return cell;
  throw std::runtime_error("no cell of " + model);
}

class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    Logits(0, 1).Put(r_);
    Logits(0.2f, 2).Put(a_);
    Logits(0.8f, 3).Put(b_);
  }
  std::string Refused(const std::string& other) { return CallTare({"judge", r_, other}).err; }

  TemporaryFolder folder_;
  const std::string r_ = folder_ / "R.safetensors", a_ = folder_ / "A.safetensors", b_ = folder_ / "B.safetensors";
};

// To the 1e-6 to which the golden values agree with llama.cpp's own.
TEST_F(JudgeTest, DivergesAsLlamaPerplexitySays) {
  const Safetensors golden(kGolden / "kld.safetensors");
  const auto other = ValuesOf<float>(golden, "logits_other");
  const auto ids = ValuesOf<int32_t>(golden, "tokens");
  const auto klds = ValuesOf<double>(golden, "kld_formula"), losses = ValuesOf<double>(golden, "nll_base_decoded");
  std::vector<float> logits(2 * 16 * 97);  // rows 8 to 14 of each window are scored
  for (size_t i = 0; i < other.size(); ++i) logits[i + (i < 7 * 97 ? 8 : 8 + 9) * 97] = other[i];
  WriteSafetensors(folder_ / "other.safetensors",
                   {{"logits", DType::kF32, {2, 16, 97}, std::as_bytes(std::span(logits))},
                    {"input_ids", DType::kI32, {2, 16}, std::as_bytes(std::span(ids))}});
  const std::string base = kGolden / "kld_base.bin", file = folder_ / "other.safetensors";
  const Json judged = Judged({base, file});
  EXPECT_EQ(judged.at("schema"), "tare.judge/1");
  const Json divergence = Cell(judged, file, "divergence").at("result"),
             perplexity = Cell(judged, base, "perplexity").at("result");
  EXPECT_NEAR(divergence.at("kld_largest"), std::ranges::max(klds), 1e-6);
  for (size_t window = 0; window < 2; ++window) {
    const auto sum = [&](const std::vector<double>& of) {
      return std::accumulate(of.begin() + static_cast<std::ptrdiff_t>(7 * window),
                             of.begin() + static_cast<std::ptrdiff_t>(7 * window + 7), 0.0);
    };
    EXPECT_NEAR(divergence.at("window_klds")[window], sum(klds), 7e-6);
    EXPECT_NEAR(perplexity.at("window_losses")[window], sum(losses), 1e-9);
    EXPECT_EQ(divergence.at("window_tokens")[window], 7);
  }
  EXPECT_EQ(Cell(judged, base, "divergence").at("result").at("kld"), 0);
  EXPECT_EQ(Cell(judged, base, "divergence").at("result").at("same_top"), 1);
}

// The reference: plain sums in double. Five tokens of a window are predicted.
TEST_F(JudgeTest, FiguresAreThoseOfPlainSums) {
  const Logits r(0, 1), b(0.8f, 3);
  double kld = 0, loss = 0;
  for (size_t row = 0; row < 180; ++row) {
    if (row % 6 == 5) continue;
    for (size_t i = 0; i < 11; ++i) kld += std::exp(LogP(r, row, i)) * (LogP(r, row, i) - LogP(b, row, i)) / 150;
    loss -= LogP(b, row, static_cast<size_t>(b.ids[row + 1])) / 150;
  }
  const Json judged = Judged({r_, b_});
  EXPECT_NEAR(Cell(judged, b_, "divergence").at("result").at("kld"), kld, 1e-6);
  EXPECT_NEAR(Cell(judged, b_, "perplexity").at("result").at("nll"), loss, 1e-6);
  EXPECT_EQ(Cell(judged, b_, "perplexity").at("result").at("tokens"), 150);
}

TEST_F(JudgeTest, ChangesArePairedByWindowsWithHolm) {
  const Outcome outcome = CallTare({"judge", r_, a_, b_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("change: from " + r_));
  EXPECT_THAT(outcome.out, HasSubstr("change of each minus that of " + a_));
  EXPECT_THAT(outcome.out, HasSubstr("p < 0.05 after Holm over 2 changes, and 2 differences"));
  const Json judged = Judged({r_, a_, b_});
  const Json difference = Cell(judged, b_, "divergence").at("differences")[0];
  EXPECT_EQ(difference.at("figure"), "kld");
  EXPECT_TRUE(difference.at("significant"));
  EXPECT_GT(difference.at("low"), 0);
  EXPECT_GE(difference.at("p_holm").get<double>(), difference.at("p").get<double>());
  EXPECT_FALSE(Cell(judged, b_, "divergence").contains("bits"));
}

TEST_F(JudgeTest, IsTheSameOnAnyNumberOfThreads) {
  const auto threads = [&](const char* n) { return CallTare({"judge", r_, a_, b_, "--threads", n}).out; };
  EXPECT_EQ(threads("1"), threads("3"));
}

TEST_F(JudgeTest, OtherTextsAreRefusedWithBothValues) {
  const std::string x = folder_ / "x.safetensors";
  Logits logits(0, 1);
  logits.ids[7] = (logits.ids[7] + 1) % 11;
  logits.Put(x);
  EXPECT_THAT(Refused(x), testing::MatchesRegex("tare: .*x.safetensors: token 7: got [0-9]+, expected [0-9]+ as in "
                                                ".*R.safetensors\n"));
  logits.windows = 29;
  logits.values.resize(29 * 66);
  logits.ids.resize(29 * 6);
  logits.Put(x);
  EXPECT_THAT(Refused(x), HasSubstr("x.safetensors: windows: got 29, expected 30 as in "));
  EXPECT_THAT(Refused(kGolden / "kld_base.bin"), HasSubstr("vocabulary: got 97, expected 11 as in "));
  EXPECT_EQ(CallTare({"judge", r_}).exit_code, 2);
  EXPECT_THAT(CallTare({"judge", r_, a_, "--json", a_}).err, HasSubstr("is both an input and an output"));
}

// llama-perplexity runs <s> in the place of a window's first token.
TEST_F(JudgeTest, FirstTokensMayDifferFromABaseFiles) {
  const std::string folder = TARE_SOURCE_DIR "/tests/fuzz/corpus/predictions/", x = folder_ / "x.kld";
  std::string base = GetFile(folder + "base.kld");
  base[20 + 4 * 6] = static_cast<char>((base[20 + 4 * 6] + 1) % 11);
  PutFile(x, base);
  EXPECT_EQ(CallTare({"judge", x, folder + "logits.safetensors"}).exit_code, 0);
}

}  // namespace
}  // namespace tare::judge_test
