// SPDX-License-Identifier: Apache-2.0
// Perplexity against log-probabilities taken in double from the golden logits, and from the model's own where windows cut the
// context; which tokens are scored; and the embedded pair's figure against transformers.
#include "experiments/tasks/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

using ::testing::AllOf;
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

TokenInput Ids(std::vector<std::vector<int32_t>> rows) { return {.kind = TokenInput::Kind::kIds, .sequences = std::move(rows)}; }

ModelConfig Positions(int positions) { return {.max_positions = positions}; }

// 0, 1, .. n - 1: a token says where it stands.
std::vector<int32_t> Counting(int32_t n, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

// How often each token is scored, and by how much context of its row at least.
std::map<int32_t, int> Scored(const std::vector<ScoredSequence>& sequences) {
  std::map<int32_t, int> times;
  for (const ScoredSequence& s : sequences) {
    for (auto t = static_cast<size_t>(s.first_target); t < s.tokens.size(); ++t) ++times[s.tokens[t]];
  }
  return times;
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
    double mean = 0, squares = 0, largest = 0;
    for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
    for (const double loss : losses) squares += (loss - mean) * (loss - mean);
    for (const float x : logits) largest = std::max(largest, std::abs(double{x}));
    // Logits are off by 2e-5 of the largest, a loss by twice that.
    const double bound = 4e-5 * largest;
    const TokenInput input = LoadTokenInput(GoldenFolder(name) / "expected.safetensors", GoldenFolder(name), model.config().vocabulary);
    const PerplexityResult result = MeasurePerplexity(model, {}, CutSequences(input, model.config(), {}), {});
    EXPECT_EQ(result.tokens, 72);
    EXPECT_EQ(result.windows, 2);
    EXPECT_NEAR(result.nll, mean, bound) << name;
    EXPECT_NEAR(result.perplexity, std::exp(mean), bound * 1.01 * std::exp(mean)) << name;
    EXPECT_NEAR(result.nll_stderr, std::sqrt(squares / 71 / 72), bound) << name;
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
      for (; scored < end; ++scored, ++tokens) sum += Loss(std::span(logits).subspan((scored - 1 - start) * 131, 131), row[scored]);
    }
  }
  EXPECT_EQ(tokens, 36 + 10);
  const PerplexityResult result =
      MeasurePerplexity(model, {}, CutSequences(Ids(rows), model.config(), {.window = kWindow, .stride = kStride}), {});
  EXPECT_EQ(result.tokens, tokens);
  EXPECT_NEAR(result.nll, sum / static_cast<double>(tokens), 1e-4);
}

TEST(PerplexityTest, EveryTokenOfATextIsScoredOnce) {
  TokenInput text{.sequences = {Counting(100, 1000)}, .bos = 7};
  for (const int64_t window : {2, 3, 16, 100, 101, 102, 200}) {
    for (const int64_t stride : {0, 1, 2, 15}) {
      if (stride > window - 1) continue;
      const auto sequences = CutSequences(text, Positions(200), {.window = window, .stride = stride});
      const std::map<int32_t, int> times = Scored(sequences);
      ASSERT_EQ(times.size(), 100u) << window << " " << stride;
      for (const auto& [token, count] : times) ASSERT_EQ(count, 1) << token;
      for (const ScoredSequence& s : sequences) {
        ASSERT_EQ(s.tokens[0], 7);
        ASSERT_EQ(std::ssize(s.tokens), std::min<int64_t>(window, 101));
      }
    }
  }
}

// Nothing predicts the first token of a row; all the others are scored once.
TEST(PerplexityTest, EveryTokenOfAnIdRowButTheFirstIsScoredOnce) {
  const TokenInput input = Ids({Counting(50, 0), Counting(7, 100), Counting(1, 200)});
  for (const int64_t window : {2, 3, 16, 49, 50, 64}) {
    for (const int64_t stride : {0, 1, 10}) {
      if (stride > window - 1) continue;
      std::map<int32_t, int> times = Scored(CutSequences(input, Positions(64), {.window = window, .stride = stride}));
      ASSERT_EQ(times.size(), 49u + 6) << window << " " << stride;
      for (const auto& [token, count] : times) ASSERT_EQ(count, 1) << token;
      ASSERT_FALSE(times.contains(0) || times.contains(100) || times.contains(200));
    }
  }
}

TEST(PerplexityTest, WindowsDefaultToWhatTheModelAllows) {
  TokenInput text{.sequences = {Counting(2000)}, .bos = 7};
  EXPECT_EQ(CutSequences(text, Positions(2048), {})[0].tokens.size(), 512u);
  EXPECT_EQ(CutSequences(text, Positions(128), {})[0].tokens.size(), 128u);
  const TokenInput ids = Ids({Counting(900), Counting(30)});
  const auto sequences = CutSequences(ids, Positions(2048), {});
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_EQ(sequences[0].tokens, Counting(900));
  EXPECT_EQ(sequences[1].tokens, Counting(30));
  EXPECT_EQ(CutSequences(ids, Positions(500), {})[0].tokens.size(), 500u);
}

TEST(PerplexityTest, TokensAndLimitCutTheInput) {
  TokenInput text{.sequences = {Counting(100)}, .bos = 7};
  auto sequences = CutSequences(text, Positions(64), {.window = 11, .tokens = 25});
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_EQ(Scored(sequences).size(), 25u);
  EXPECT_EQ(Scored(sequences).rbegin()->first, 24);
  sequences = CutSequences(text, Positions(64), {.window = 11, .limit = 4});
  EXPECT_EQ(sequences.size(), 4u);
  EXPECT_EQ(Scored(sequences).size(), 40u);
  EXPECT_EQ(CutSequences(text, Positions(64), {.window = 11, .tokens = 25, .limit = 2}).size(), 2u);
  // Tokens count over rows.
  const auto rows = CutSequences(Ids({Counting(10), Counting(10, 50), Counting(10, 90)}), Positions(64), {.tokens = 13});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[1].tokens, ElementsAre(50, 51, 52));
}

TEST(PerplexityTest, ImpossibleWindowsAreRefused) {
  TokenInput text{.sequences = {Counting(100)}, .bos = 7};
  const TokenInput ids = Ids({Counting(100)});
  const auto refuses = [](const TokenInput& input, WindowOptions options, const char* why) {
    EXPECT_THAT([&] { CutSequences(input, Positions(64), options); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refuses(text, {.window = 65}, "--window: got 65, expected 2 to 64");
  refuses(text, {.window = 1}, "--window: got 1, expected 2 to 64");
  refuses(ids, {.window = 65}, "--window: got 65, expected 1 to 64");
  refuses(ids, {.window = -3}, "--window: got -3");
  refuses(text, {.window = 10, .stride = 10}, "--stride: got 10, expected 1 to 9");
  refuses(ids, {.window = 10, .stride = 11}, "--stride: got 11, expected 1 to 10");
  refuses(ids, {.window = 10, .stride = -1}, "--stride: got -1");
}

TEST(PerplexityTest, NothingToPredictIsRefused) {
  Model model(GoldenFolder("llama-mha"));
  const auto sequences = CutSequences(Ids({{5}, {6}}), model.config(), {});
  EXPECT_THAT([&] { MeasurePerplexity(model, {}, sequences, {}); }, ThrowsMessage<Error>(HasSubstr("no token to predict")));
}

TEST(PerplexityTest, BatchesHold2048RowsOrOneSequence) {
  EXPECT_EQ(SequencesPerBatch(1), 2048);
  EXPECT_EQ(SequencesPerBatch(512), 4);
  EXPECT_EQ(SequencesPerBatch(513), 3);
  EXPECT_EQ(SequencesPerBatch(2048), 1);
  EXPECT_EQ(SequencesPerBatch(100000), 1);
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
    results.push_back(MeasurePerplexity(model, {}, CutSequences(Ids(rows), model.config(), {}), progress).nll);
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
    const PerplexityResult result = MeasurePerplexity(model, {}, CutSequences(input, model.config(), {.limit = 40}), {});
    EXPECT_EQ(result.tokens, 20440) << name;
    EXPECT_NEAR(result.perplexity, perplexity, 0.001) << name;
  }
}

// Finite weights whose products are not: no figure, but an error.
TEST(PerplexityTest, LossesThatAreNoNumbersAreRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  EditedCheckpoint::Tensor& head = checkpoint.tensors.at("lm_head.weight");
  for (size_t i = 0; i < 160 * 64; ++i) head.SetBits(i, i % 2 == 0 ? 0x7f000000 : 0xff000000);  // +/- 2^127
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  const auto sequences = CutSequences(Ids(GoldenRows("llama-mha")), model.config(), {});
  EXPECT_THAT([&] { MeasurePerplexity(model, {}, sequences, {}); }, ThrowsMessage<Error>(AllOf(HasSubstr("perplexity"), HasSubstr("not finite"))));
}

}  // namespace
}  // namespace tare
