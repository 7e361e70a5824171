// SPDX-License-Identifier: Apache-2.0
// Text generated over a cache is what whole forward passes would pick.
#include "experiments/passes/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::generate_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// The pieces of a text, token by token, join to the text.

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
TEST(TextStreamTest, PartsOfACharacterWait) {
  const Tokenizer tokenizer = Tokenizer::Load(PairFolder("novels-differential"));
  std::vector<int32_t> tokens = tokenizer.Encode("so \U0001F642");
  tokens.pop_back();
  TextStream stream(tokenizer, {});
  std::string grown;
  for (const int32_t token : tokens) grown += stream.Add(token);
  EXPECT_EQ(grown, "so ");
  EXPECT_NE(stream.Rest(), "");
}

// Logarithms of probabilities 0.5, 0.3, 0.15, 0.05, in another order.
const std::vector<float> kLogits = {std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};

// How often each token is drawn.
std::map<int32_t, int> Drawn(const Sampling& sampling, int draws = 20000) {
  Sampler sampler(sampling);
  std::map<int32_t, int> times;
  for (int i = 0; i < draws; ++i) ++times[sampler.Pick(kLogits)];
  return times;
}

TEST(SamplerTest, WithoutTemperatureTheLikeliestTheFirstOfEquals) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Pick(kLogits), 1);
  const float equal[] = {1, 3, 3, -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(sampler.Pick(equal), 1);
}

// 20,000 draws: four standard deviations of a share are 0.014 at most.
TEST(SamplerTest, DrawsFollowTheProbabilities) {
  std::map<int32_t, int> times = Drawn({.temperature = 1, .seed = 1});
  EXPECT_NEAR(times[1] / 20000.0, 0.5, 0.015);
  EXPECT_NEAR(times[3] / 20000.0, 0.3, 0.015);
  EXPECT_NEAR(times[2] / 20000.0, 0.05, 0.015);
  // At temperature 2 weights are roots: 0.387, 0.707, 0.224, 0.548.
  times = Drawn({.temperature = 2, .seed = 1});
  EXPECT_NEAR(times[1] / 20000.0, 0.379, 0.015);
  EXPECT_NEAR(times[2] / 20000.0, 0.120, 0.015);
}

// The smallest set that holds top_p, drawn by what its tokens weigh in it.
TEST(SamplerTest, TheNucleusHoldsTopP) {
  std::map<int32_t, int> times = Drawn({.temperature = 1, .top_p = 0.7, .seed = 2});
  EXPECT_EQ(times.size(), 2u);
  EXPECT_NEAR(times[1] / 20000.0, 0.5 / 0.8, 0.015);
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.81, .seed = 2}).size(), 3u);
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 1e-9, .seed = 2}).size(), 1u);
}

// These are the tokens of seed 7 on every machine.
TEST(SamplerTest, ASeedGivesItsTokens) {
  const auto tokens = [](uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<int32_t> drawn;
    for (int i = 0; i < 12; ++i) drawn.push_back(sampler.Pick(kLogits));
    return drawn;
  };
  EXPECT_EQ(tokens(7), tokens(7));
  EXPECT_NE(tokens(7), tokens(8));
}

TEST(SamplerTest, BadInputIsNamed) {
  const auto refused = [](const Sampling& sampling, const char* message) {
    EXPECT_THAT(Call([&] { Sampler{sampling}; }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused({.temperature = -1}, "--temperature: got -1");
  refused({.temperature = std::nan("")}, "--temperature: got nan");
  refused({.top_p = 0}, "--top-p: got 0");
  refused({.top_p = 1.5}, "--top-p: got 1.5");
  Sampler sampler({});
  const float nan[] = {1, std::nanf(""), 2}, infinite[] = {1, std::numeric_limits<float>::infinity()};
  EXPECT_THAT(Call([&] { sampler.Pick(nan); }), ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
  EXPECT_THAT(Call([&] { sampler.Pick(infinite); }), ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

std::vector<int32_t> Generated(Model& model, const std::vector<int32_t>& prompt, const GenerateOptions& options) {
  Generation done;
  std::vector<int32_t> told;
  Generate(model, {}, prompt, options, {}, [&](int32_t token) { return told.push_back(token), true; }, done);
  EXPECT_EQ(told, done.tokens);
  EXPECT_GT(done.weight_bytes, 0);
  EXPECT_GT(done.cache_bytes, 0);
  return done.tokens;
}

TEST(GenerateTest, GreedyTokensAreThoseOfWholePasses) {
  for (const char* name : {"llama-gqa", "diffllama-mha", "diff-v2-gqa", "gemma3"}) {
    Model model(GoldenFolder(name));
    std::vector<int32_t> text = GoldenRows(name)[1];
    text.resize(9);
    const std::vector<int32_t> got = Generated(model, text, {.tokens = 12});
    ASSERT_EQ(got.size(), 12u);
    const auto V = static_cast<size_t>(model.config().vocabulary);
    for (const int32_t token : got) {
      TokenBatch batch;
      batch.Add(0, text);
      const std::vector<float> logits = LogitsOf(model, batch);
      const auto last = std::span(logits).last(V);
      EXPECT_EQ(token, std::ranges::max_element(last) - last.begin()) << name << " " << text.size();
      text.push_back(token);
    }
  }
}

TEST(GenerateTest, WithoutACacheTheTokensAreTheSame) {
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1, .seed = 5}}) {
    Model model(GoldenFolder("diffllama-mha"));
    const std::vector<int32_t> prompt = {5, 9, 3};
    const GenerateOptions options{.tokens = 12, .sampling = sampling};
    Generation done;
    GenerateWhole(model, {}, prompt, options, [](int32_t) { return true; }, done);
    EXPECT_EQ(done.tokens, Generated(model, prompt, options));
  }
}

TEST(GenerateTest, ItsCallerEndsIt) {
  Model model(GoldenFolder("llama-mha"));
  const std::vector<int32_t> prompt = {5};
  Generation cached, whole;
  Generate(model, {}, prompt, {.tokens = 8}, {}, [](int32_t) { return false; }, cached);
  GenerateWhole(model, {}, prompt, {.tokens = 8}, [](int32_t) { return false; }, whole);
  EXPECT_EQ(cached.tokens.size(), 1u);
  EXPECT_EQ(whole.tokens, cached.tokens);
}

TEST(GenerateTest, AnEndTokenStopsIt) {
  Model model(GoldenFolder("llama-mha"));
  const std::vector<int32_t> prompt = {5};  // nothing but the token whose successor is asked for
  const std::vector<int32_t> all = Generated(model, prompt, {.tokens = 8});
  const size_t place = 4;
  const std::vector<int32_t> cut = Generated(model, prompt, {.tokens = 8, .ends = {all[place]}});
  const size_t first = std::ranges::find(all, all[place]) - all.begin();
  EXPECT_EQ(cut, std::vector<int32_t>(all.begin(), all.begin() + static_cast<ptrdiff_t>(first) + 1));
}

// One row at a time reads the codes themselves, its inputs as 15 bits: the same text as their values in f32.
TEST(GenerateTest, ExecutedWeightsGiveTheSimulatedText) {
  Model simulated(GoldenFolder("llama-gqa")), executed(GoldenFolder("llama-gqa"));
  const char* const plan = "weights=int8/group16";
  PlanRun a(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(simulated)),
      b(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(executed));
  std::vector<int32_t> prompt = GoldenRows("llama-gqa")[0];
  prompt.resize(8);
  const auto run = [&](PlanRun& plan_run, Model& model) {
    Generation done;
    Generate(model, plan_run.Begin(model), prompt, {.tokens = 10}, {}, [](int32_t) { return true; }, done);
    return done;
  };
  const Generation in_f32 = run(a, simulated), in_codes = run(b, executed);
  EXPECT_EQ(in_f32.tokens, in_codes.tokens);
  EXPECT_LT(in_codes.weight_bytes, 0.6 * in_f32.weight_bytes);  // the head stays f32
}

// The tokens that a prompt of so many gives, and how far its passes came, one by one.
struct Prompted {
  std::vector<int32_t> tokens;
  std::vector<int64_t> passes;

  friend bool operator==(const Prompted&, const Prompted&) = default;
};
Prompted ExecutedPrompt(Model& model, size_t length, const char* caches, int threads = 0) {
  SetThreads(threads);
  const CachePlan cache = ParseCachePlan(caches);
  PlanRun run(PromptPlanOf(Plan::Parse("int8"), ModelSitesOf(model), cache.policy), ModelSitesOf(model), cache);
  const SiteVisitors visitors = run.Begin(model);
  std::vector<int32_t> prompt(length);
  for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<int32_t>(i * i % 997);
  Prompted got;
  Generation done;
  Generate(
      model, visitors, prompt, {.cache = cache, .tokens = 3},
      [&](int64_t now, int64_t, const char*) { got.passes.push_back(now); }, [](int32_t) { return true; }, done);
  SetThreads(0);
  got.tokens = done.tokens;
  return got;
}

TEST(GenerateTest, ExecutedPromptsPassInLargeParts) {
  Model model(PairFolder("novels-differential"));
  const auto passes = [&](size_t length, const char* caches) { return ExecutedPrompt(model, length, caches).passes; };
  EXPECT_THAT(passes(700, "cache_k=int8/token"), ElementsAre(699));
  EXPECT_THAT(passes(150, "cache_k=int8/channel"), ElementsAre(64, 128, 149));
  EXPECT_THAT(passes(2, "first=1,cache_v=int4/token"), ElementsAre(1));
  EXPECT_THAT(passes(1, ""), IsEmpty());
}

TEST(GenerateTest, ExecutedPromptsAreTheSameOnAnyNumberOfThreads) {
  Model model(PairFolder("novels-differential"));
  for (const size_t length : {size_t{1}, size_t{2}, size_t{511}, size_t{512}, size_t{513}, size_t{514}}) {
    const Prompted one = ExecutedPrompt(model, length, "cache_k=int4/token,cache_v=int8/token", 1);
    EXPECT_EQ(one.tokens.size(), 3u) << length;
    EXPECT_EQ(ExecutedPrompt(model, length, "cache_k=int4/token,cache_v=int8/token", 3), one) << length;
  }
}

TEST(GenerateTest, ImpossibleRequestsAreRefusedFirst) {
  Model model(GoldenFolder("llama-mha"));
  const auto refused = [&](const std::vector<int32_t>& prompt, const GenerateOptions& options, const char* message) {
    Generation done;
    EXPECT_THAT(Call([&] { Generate(model, {}, prompt, options, {}, [](int32_t) { return true; }, done); }),
                ThrowsMessage<Error>(HasSubstr(message)));
    EXPECT_EQ(done.seconds, 0);
  };
  const int positions = model.config().max_positions;
  refused({}, {}, "prompt: got no tokens");
  refused({1}, {.tokens = 0}, "--tokens: got 0");
  refused({1, 2, 3}, {.tokens = positions - 2}, "prompt: got 3 tokens and");
  refused({1}, {.sampling = {.top_p = 2}}, "--top-p: got 2");
  ModelConfig large = model.config();
  large.layers = 1 << 30;
  EXPECT_THAT(Call([&] { CheckCacheFits(large, {}, 1 << 20); }), ThrowsMessage<Error>(HasSubstr("more than the")));
}

TEST(GenerateTest, EndTokensAreThoseOfTheCheckpoint) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(EndTokens(folder.path()), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [3, 9]})");
  EXPECT_THAT(EndTokens(folder.path()), ElementsAre(3, 9));
  write("generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_THAT(Call([&] { EndTokens(folder.path()); }), ThrowsMessage<Error>(HasSubstr("eos_token_id: got \"x\"")));
  write("generation_config.json", R"({"eos_token_id": 4294967298})");
  EXPECT_THAT(Call([&] { EndTokens(folder.path()); }), ThrowsMessage<Error>(HasSubstr("eos_token_id: got 4294967298")));
  write("generation_config.json", R"({})");
  EXPECT_THAT(EndTokens(folder.path()), IsEmpty()) << "the file is there: config.json does not count";
}

}  // namespace

}  // namespace tare::generate_test
