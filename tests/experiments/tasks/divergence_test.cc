// SPDX-License-Identifier: Apache-2.0
// Every token against the definitions in double, from the logits of two forward passes; no divergence from itself; the
// figures of a result. By hand on few tokens; contexts by powers of two.
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/significance/mean_error.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::divergence_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<double> Probabilities(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(x - largest));
  for (double& x : p) x /= sum;
  return p;
}

std::vector<ScoredSequence> Rows(const char* name, const Model& model) {
  const TokenInput input{.kind = TokenInput::Kind::kIds, .sequences = GoldenRows(name)};
  return CutSequences(input, model.config(), {.window = 16, .stride = 9});
}

TEST(DivergenceTaskTest, FollowsTheDefinitions) {
  Model model(GoldenFolder("diffllama-gqa")), reference(GoldenFolder("llama-gqa"));
  ASSERT_EQ(model.config().vocabulary, reference.config().vocabulary);
  const std::vector<ScoredSequence> sequences = Rows("diffllama-gqa", model);
  const std::vector<TokenDivergence> tokens = MeasureDivergence(model, {}, reference, sequences, {}, {});
  const auto V = static_cast<size_t>(model.config().vocabulary);
  size_t next = 0;
  for (const ScoredSequence& s : sequences) {
    TokenBatch batch;
    batch.Add(0, s.tokens);
    const std::vector<float> of_model = LogitsOf(model, batch), of_reference = LogitsOf(reference, batch);
    for (size_t t = static_cast<size_t>(s.first_target); t < s.tokens.size(); ++t, ++next) {
      const std::vector<double> q = Probabilities(std::span(of_model).subspan((t - 1) * V, V)),
                                p = Probabilities(std::span(of_reference).subspan((t - 1) * V, V));
      double kld = 0;
      for (size_t i = 0; i < V; ++i) kld += p[i] * std::log(p[i] / q[i]);
      const auto target = static_cast<size_t>(s.tokens[t]);
      // Logits of some 10 are off by 2^-24 of themselves in f32, differences by twice that.
      EXPECT_NEAR(tokens[next].kld, kld, 1e-5);
      EXPECT_NEAR(tokens[next].loss, -std::log(q[target]), 1e-5);
      EXPECT_NEAR(tokens[next].reference_loss, -std::log(p[target]), 1e-5);
      EXPECT_EQ(tokens[next].same_top,
                std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin());
      EXPECT_EQ(tokens[next].context, static_cast<int64_t>(t));
      EXPECT_GT(kld, 0.01);  // these are two models
    }
  }
  EXPECT_EQ(tokens.size(), next);
}

TEST(DivergenceTaskTest, IsZeroFromItselfOnAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    SetThreads(threads);
    Model model(GoldenFolder("llama-gqa")), reference(GoldenFolder("llama-gqa"));
    for (const TokenDivergence& t : MeasureDivergence(model, {}, reference, Rows("llama-gqa", model), {}, {})) {
      EXPECT_NEAR(t.kld, 0, 1e-6);
      EXPECT_EQ(t.loss, t.reference_loss);
      EXPECT_TRUE(t.same_top);
    }
  }
  SetThreads(0);
}

// Logits or final states that the first run keeps stand for the reference in the second, to the bit, and are what it
// takes: with others of them it gives something else.
TEST(DivergenceTaskTest, WhatIsKeptOfTheReferenceGivesTheSameBits) {
  Model model(GoldenFolder("diffllama-gqa")), reference(GoldenFolder("llama-gqa"));
  const std::vector<ScoredSequence> sequences = Rows("diffllama-gqa", model);
  const auto klds = [&](Model& of, ReferenceStates* states) {
    std::vector<double> all;
    for (const TokenDivergence& t : MeasureDivergence(model, {}, of, sequences, {}, {}, states)) all.push_back(t.kld);
    return all;
  };
  const std::vector<double> expected = klds(reference, nullptr);
  for (const auto of : {ReferenceStates::Of::kLogits, ReferenceStates::Of::kFinalNorm}) {
    ReferenceStates states{of};
    EXPECT_EQ(klds(reference, &states), expected);
    EXPECT_EQ(klds(reference, &states), expected);
    std::ranges::fill(states.values, 0.0f);
    EXPECT_NE(klds(reference, &states), expected);
  }
}

class DivergenceResult : public testing::Test {
 protected:
  nlohmann::ordered_json Run(Model& model, const char* plan, const TaskOptions& options) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
    return kDivergenceTask.read(GoldenFolder(model.Name()) / "expected.safetensors", model, options)(model, run, {})
        .figures;
  }
};

TEST_F(DivergenceResult, APlanMovesTheModelFromItself) {
  Model model(GoldenFolder("diffllama-mha"));
  const nlohmann::ordered_json coarse = Run(model, "attn_logits=int4/row", {}),
                               fine = Run(model, "attn_logits=int8/row", {});
  EXPECT_GT(fine.at("kld"), 0.0);
  EXPECT_GT(coarse.at("kld").get<double>(), 10 * fine.at("kld").get<double>());
  EXPECT_EQ(coarse.at("tokens"), 72);
  double sum = 0, tokens = 0;
  for (const double kld : coarse.at("window_klds")) sum += kld;
  EXPECT_NEAR(sum / 72, coarse.at("kld").get<double>(), 1e-12);
  for (const auto& some : coarse.at("by_context")) tokens += some.at("tokens").get<double>();
  EXPECT_EQ(tokens, 72);
  EXPECT_EQ(coarse.at("by_context").size(), 6u);  // 1, 2 to 3, ..., 32 to 36
  EXPECT_TRUE(ReadFigures(coarse, kDivergenceTask).has_value());
  EXPECT_THAT(HowMeasured(coarse, kDivergenceTask), HasSubstr("99.9 %"));
}

// One model under two tokenizers that number pieces differently.
TEST_F(DivergenceResult, ReferencesOfAnotherTokenizerAreRefused) {
  const TemporaryFolder own, other;
  std::string pieces = GetFile(TARE_SOURCE_DIR "/tests/data/text/tokenizers/llama3.json");
  for (const TemporaryFolder* folder : {&own, &other}) {
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy(GoldenFolder("llama-gqa") / name, *folder / name);
    PutFile(*folder / "tokenizer.json", pieces);
  }
  Model model(own.path());
  const std::filesystem::path ids = GoldenFolder("llama-gqa") / "expected.safetensors";
  EXPECT_NO_THROW(kDivergenceTask.read(ids, model, {.reference = other.path()}));
  pieces[pieces.find("\"A\":34") + 1] = 'B', pieces[pieces.find("\"B\":35") + 1] = 'A';
  PutFile(other / "tokenizer.json", pieces);
  EXPECT_THAT(Call([&] { kDivergenceTask.read(ids, model, {.reference = other.path()}); }),
              ThrowsMessage<Error>(HasSubstr("for id 34, expected \"A\" as in")));
}

TEST_F(DivergenceResult, IsFromTheReferenceWhereOneIsNamed) {
  Model model(GoldenFolder("diffllama-gqa"));
  const nlohmann::ordered_json moved = Run(model, "", {.reference = GoldenFolder("llama-gqa")});
  EXPECT_GT(moved.at("kld"), 0.1);
  EXPECT_NEAR(Run(model, "", {}).at("kld").get<double>(), 0, 1e-6);
  EXPECT_THAT(Call([&] { Run(model, "", {.reference = GoldenFolder("clip-text")}); }),
              ThrowsMessage<Error>(HasSubstr("--reference: got clip-text with a vocabulary of 61, expected")));
}

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ContextRanges, NothingBeforeAndNothingAtAll) {
  EXPECT_THAT(ByContext(std::vector<TokenDivergence>{{.context = 0}, {.context = 1}}), SizeIs(2));
  EXPECT_EQ(LastOfRange(0), 0);
  EXPECT_EQ(LastOfRange(1), 1);
  EXPECT_THAT(ByContext(std::vector<TokenDivergence>()), IsEmpty());
}

TEST(QuantileTest, InterpolatesBetweenNeighbours) {
  const double values[] = {1, 2, 4, 8, 16};
  EXPECT_EQ(Quantile(values, 0), 1);
  EXPECT_EQ(Quantile(values, 0.5), 4);
  EXPECT_EQ(Quantile(values, 1), 16);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.9), 8 + 0.6 * 8);
  const double one[] = {7};
  EXPECT_EQ(Quantile(one, 0.999), 7);
  const double two[] = {1, 3};
  EXPECT_EQ(Quantile(two, 0.5), 2);
}

nlohmann::ordered_json FiguresOf(const std::vector<TokenDivergence>& tokens) {
  return tare::DivergenceResult(tokens).figures;
}

TEST(DivergenceTest, ByHand) {
  // p of the token: 1/2, 1/4, 1/8, 1/2; q: 1/4, 1/4, 1/4, 1/2.
  const double ln2 = std::log(2);
  const nlohmann::ordered_json figures =
      FiguresOf({{.kld = 0.4, .reference_loss = ln2, .loss = 2 * ln2, .same_top = true, .context = 1},
                 {.kld = 0.1, .reference_loss = 2 * ln2, .loss = 2 * ln2, .same_top = true, .context = 2},
                 {.kld = 0.2, .reference_loss = 3 * ln2, .loss = 2 * ln2, .same_top = false, .context = 3},
                 {.kld = 0.1, .reference_loss = ln2, .loss = ln2, .same_top = true, .context = 4}});
  const auto of = [&](const char* key) { return figures.at(key).get<double>(); };
  EXPECT_DOUBLE_EQ(of("kld"), 0.2);
  EXPECT_TRUE(figures.at("kld_stderr").is_null()) << "one window";
  EXPECT_DOUBLE_EQ(of("kld_median"), 0.15);
  EXPECT_DOUBLE_EQ(of("kld_90"), 0.2 + 0.7 * 0.2);
  EXPECT_DOUBLE_EQ(of("kld_95"), 0.2 + 0.85 * 0.2);
  EXPECT_DOUBLE_EQ(of("kld_99"), 0.2 + 0.97 * 0.2);
  EXPECT_DOUBLE_EQ(of("kld_99_9"), 0.2 + 0.997 * 0.2);
  EXPECT_EQ(of("kld_largest"), 0.4);
  EXPECT_EQ(of("same_top"), 0.75);
  EXPECT_NEAR(of("delta_p"), (-0.25 + 0 + 0.125 + 0) / 4, 1e-15);
  EXPECT_NEAR(of("delta_p_rms"), std::sqrt((0.0625 + 0.015625) / 4), 1e-15);
  EXPECT_NEAR(of("perplexity_ratio"), 1, 1e-15);
}

// 49 times 1/49 is less than 1, and more for other numbers.
TEST(DivergenceTest, AShareOfAllIsOne) {
  for (size_t n = 1; n < 3000; n += 7) {
    const nlohmann::ordered_json figures = FiguresOf(std::vector<TokenDivergence>(n, {.same_top = true}));
    ASSERT_EQ(figures.at("same_top"), 1) << n;
  }
}

// Windows of two tokens each: whether their tokens are alike does not matter, their sums do.
TEST(DivergenceTest, ErrorsAreOverWindows) {
  std::vector<TokenDivergence> tokens;
  std::vector<double> klds, ratios;
  for (size_t window = 0; window < 30; ++window) {
    const double kld = 0.1 * static_cast<double>(window * 7 % 11);
    tokens.push_back({.kld = kld + 0.05, .reference_loss = 1, .loss = 1 + kld, .same_top = true, .window = window});
    tokens.push_back({.kld = kld - 0.05, .reference_loss = 1, .loss = 1 + 2 * kld, .window = window});
    klds.push_back(kld), ratios.push_back(1.5 * kld);
  }
  const nlohmann::ordered_json figures = FiguresOf(tokens);
  const auto of = [&](const char* key) { return figures.at(key).get<double>(); };
  EXPECT_NEAR(of("kld_stderr"), ErrorOfMean(klds, Units::kOfText)->error, 1e-14);
  EXPECT_NEAR(of("perplexity_ratio_stderr") / of("perplexity_ratio"), ErrorOfMean(ratios, Units::kOfText)->error,
              1e-14);
  EXPECT_EQ(of("same_top"), 0.5);
  EXPECT_EQ(of("same_top_stderr"), 0) << "one of two in every window";
  EXPECT_EQ(figures.at("by_context").at(0).at("kld_stderr"), figures.at("kld_stderr"));
}

TEST(DivergenceTest, ContextsByPowersOfTwo) {
  std::vector<TokenDivergence> tokens;
  for (const int64_t context : {5, 1, 4, 3, 8, 7})
    tokens.push_back({.kld = static_cast<double>(context), .reference_loss = 1, .loss = 1.5, .context = context});
  const auto all = ByContext(tokens);
  ASSERT_EQ(all.size(), 4u);
  const int64_t first[] = {1, 2, 4, 8}, last[] = {1, 3, 7, 15};
  const std::vector<double> klds[] = {{1}, {3}, {5, 4, 7}, {8}};
  for (size_t i = 0; const auto& [of_range, some] : all) {
    EXPECT_EQ(of_range, first[i]);
    EXPECT_EQ(LastOfRange(of_range), last[i]);
    EXPECT_TRUE(std::ranges::equal(some, klds[i], {}, &TokenDivergence::kld)) << "in their order";
    EXPECT_DOUBLE_EQ(FiguresOf(some).at("perplexity_ratio").get<double>(), std::exp(0.5));
    ++i;
  }
}

}  // namespace
}  // namespace tare::divergence_test
