// SPDX-License-Identifier: Apache-2.0
// Perplexity against log-probabilities in double, from the golden logits, and from the model's own if windows cut the
// context; and the embedded pair's figure against transformers. sequences_test.cc checks which tokens are scored.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include "experiments/tasks/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "experiments/significance/mean_error.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::perplexity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// -log softmax(logits)[target], nats.
double Loss(std::span<const float> logits, int32_t target) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(target)];
}

Json Measure(Model& model, const std::vector<ScoredSequence>& sequences, const Progress& progress = {}) {
  return MeasurePerplexity(model, {}, sequences, {}, progress).figures;
}

TokenInput Ids(std::vector<std::vector<int32_t>> rows) {
  return {.kind = TokenInput::Kind::kIds, .sequences = std::move(rows)};
}

TEST(PerplexityTest, IsTheMeanOfTheGoldenLosses) {
  for (const char* name : kGoldenCheckpoints) {
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    Model model(GoldenFolder(name));
    const auto logits = ValuesOf<float>(expected, "logits");
    const auto V = static_cast<size_t>(model.config().vocabulary);
    std::vector<double> losses;
    size_t row = 0;
    for (const std::vector<int32_t>& ids : GoldenRows(name)) {
      for (size_t t = 0; t < ids.size(); ++t, ++row) {
        if (t + 1 < ids.size()) losses.push_back(Loss(std::span(logits).subspan(row * V, V), ids[t + 1]));
      }
    }
    double mean = 0, largest = 0;
    for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
    for (const float x : logits) largest = std::max(largest, std::abs(double{x}));
    // Logits are off by 2e-5 of the largest, a loss by twice that.
    const double bound = 4e-5 * largest;
    const TokenInput input =
        LoadTokenInput(GoldenFolder(name) / "expected.safetensors", GoldenFolder(name), model.config().vocabulary);
    const Json result = Measure(model, CutSequences(input, model.config(), {}));
    const size_t count = losses.size(), of_window = count / 2;
    EXPECT_EQ(result["tokens"], count);
    EXPECT_EQ(result["windows"], 2);
    EXPECT_NEAR(result["nll"].get<double>(), mean, bound) << name;
    EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(mean), bound * 1.01 * std::exp(mean)) << name;
    EXPECT_TRUE(result["nll_stderr"].is_null()) << "two windows";
    const double second = std::accumulate(losses.begin() + of_window, losses.end(), 0.0);
    EXPECT_NEAR(result["window_losses"][1].get<double>(), second, of_window * bound) << name;
    EXPECT_EQ(result["window_tokens"], (std::vector{of_window, of_window}));
  }
}

// Each window alone, scored by hand: the sum over windows of what none before held.
TEST(PerplexityTest, WindowsAreScoredByTheirOwnContext) {
  Model model(GoldenFolder("diffllama-gqa"));
  std::vector<std::vector<int32_t>> rows = GoldenRows("diffllama-gqa");
  rows[1].resize(11);
  constexpr size_t kWindow = 16, kStride = 5;
  double sum = 0;
  int64_t tokens = 0;
  for (const std::vector<int32_t>& row : rows) {
    size_t scored = 1;  // nothing predicts a row's first token
    for (size_t begin = 0; scored < row.size(); begin += kStride) {
      const size_t end = std::min(begin + kWindow, row.size());
      const size_t start = end - std::min(kWindow, row.size());
      TokenBatch batch;
      batch.Add(0, std::span(row).subspan(start, end - start));
      const std::vector<float> logits = LogitsOf(model, batch);
      for (; scored < end; ++scored, ++tokens)
        sum += Loss(std::span(logits).subspan((scored - 1 - start) * 131, 131), row[scored]);
    }
  }
  EXPECT_EQ(tokens, 36 + 10);
  const Json result = Measure(model, CutSequences(Ids(rows), model.config(), {.window = kWindow, .stride = kStride}));
  EXPECT_EQ(result["tokens"], tokens);
  EXPECT_NEAR(result["nll"].get<double>(), sum / static_cast<double>(tokens), 1e-4);
}

// Twenty-four rows, so that the losses at one position have a sample of windows.
TEST(PerplexityTest, ByPositionIsTheMeanOverItsTokens) {
  Model model(GoldenFolder("llama-mha"));
  std::vector<std::vector<int32_t>> rows;
  for (int i = 0; i < 24; ++i) {
    rows.push_back(GoldenRows("llama-mha")[static_cast<size_t>(i) % 2]);
    rows.back().resize(static_cast<size_t>(6 + i % 6));
    rows.back()[0] = 7 + i;
  }
  std::vector<double> first, third;  // of one token before, and of four to seven
  double sum = 0, count = 0;
  const auto V = static_cast<size_t>(model.config().vocabulary);
  for (const std::vector<int32_t>& row : rows) {
    TokenBatch batch;
    batch.Add(0, row);
    const std::vector<float> logits = LogitsOf(model, batch);
    const auto loss = [&](size_t t) { return Loss(std::span(logits).subspan((t - 1) * V, V), row[t]); };
    first.push_back(loss(1));
    for (size_t t = 4; t < std::min<size_t>(8, row.size()); ++t) sum += loss(t), count += 1;
  }
  double mean = 0;
  for (const double loss : first) mean += loss / 24;
  const Json result = Measure(model, CutSequences(Ids(rows), model.config(), {}));
  const Json& list = result["by_position"];
  ASSERT_EQ(list.size(), 4u);  // 1, 2 to 3, 4 to 7, 8 to 10
  EXPECT_EQ(list[0]["last"], 1);
  EXPECT_EQ(list[0]["tokens"], 24);
  EXPECT_NEAR(list[0]["nll"].get<double>(), mean, 1e-4);
  EXPECT_NEAR(list[0]["nll_stderr"].get<double>(), ErrorOfMean(first, Units::kOfText)->error, 1e-4);
  EXPECT_EQ(list[2]["first"], 4);
  EXPECT_EQ(list[2]["last"], 7);
  EXPECT_EQ(list[2]["tokens"], count);
  EXPECT_NEAR(list[2]["nll"].get<double>(), sum / count, 1e-4);
  EXPECT_TRUE(list[3]["nll_stderr"].is_null()) << "twelve windows";
}

TEST(PerplexityTest, NothingToPredictIsRefused) {
  Model model(GoldenFolder("llama-mha"));
  const auto sequences = CutSequences(Ids({{5}, {6}}), model.config(), {});
  EXPECT_THAT(Call([&] { MeasurePerplexity(model, {}, sequences, {}, {}); }),
              ThrowsMessage<Error>(HasSubstr("no token to predict")));
}

TEST(PerplexityTest, ThreadsAndProgress) {
  std::vector<std::vector<int32_t>> rows;
  for (int i = 0; i < 60; ++i) rows.push_back(GoldenRows("llama-old-config")[static_cast<size_t>(i) % 2]);
  std::vector<double> results;
  for (const int threads : {1, 5}) {
    SetThreads(threads);
    Model model(GoldenFolder("llama-old-config"));
    std::vector<std::pair<int64_t, int64_t>> reports;
    const Progress progress = [&](int64_t done, int64_t total, const char* unit) {
      EXPECT_STREQ(unit, "tokens");
      reports.emplace_back(done, total);
    };
    results.push_back(Measure(model, CutSequences(Ids(rows), model.config(), {}), progress)["nll"]);
    EXPECT_THAT(reports, ElementsAre(std::pair(55 * 37, 60 * 37), std::pair(60 * 37, 60 * 37)));
  }
  SetThreads(0);
  EXPECT_EQ(results[0], results[1]);
}

// experiments/pair/training/reference.txt: 29.332 and 31.154 over 20,440 tokens, printed to three places.
TEST(PerplexityTest, TheEmbeddedPairsFiguresAreTransformers) {
  const std::pair<const char*, double> expected[] = {{"novels-standard", 29.332}, {"novels-differential", 31.154}};
  for (const auto& [name, perplexity] : expected) {
    Model model(PairFolder(name));
    const TokenInput input = LoadTokenInput(PairFolder("heldout.txt"), PairFolder(name), model.config().vocabulary);
    const Json result = Measure(model, CutSequences(input, model.config(), {.limit = 40, .from = TakeFrom::kStart}));
    EXPECT_EQ(result["tokens"], 20440) << name;
    EXPECT_NEAR(result["perplexity"].get<double>(), perplexity, 0.001) << name;
  }
}

// Finite weights whose products are not: no figure, but an error.
TEST(PerplexityTest, LossesThatAreNotFiniteAreRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  EditedCheckpoint::Tensor& norm = checkpoint.tensors.at("model.norm.weight");
  for (size_t i = 0; i < 64; ++i) norm.SetBits(i, 0x7f000000);  // 2^127
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  const auto sequences = CutSequences(Ids(GoldenRows("llama-mha")), model.config(), {});
  EXPECT_THAT(Call([&] { MeasurePerplexity(model, {}, sequences, {}, {}); }),
              ThrowsMessage<Error>(HasSubstr("perplexity: the mean loss is")));
}

}  // namespace
}  // namespace tare::perplexity_test
