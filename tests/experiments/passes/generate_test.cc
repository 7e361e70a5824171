// SPDX-License-Identifier: Apache-2.0
// What is generated over a cache is what whole forward passes would pick.
#include "experiments/passes/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "experiments/model/plan_run.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<int32_t> Generated(Model& model, const std::vector<int32_t>& prompt, const GenerateOptions& options) {
  Generation done;
  std::vector<int32_t> told;
  Generate(model, {}, prompt, options, {}, [&](int32_t token) { told.push_back(token); }, done);
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

TEST(GenerateTest, AnEndEndsIt) {
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
    Generate(model, plan_run.Begin(model), prompt, {.tokens = 10}, {}, [](int32_t) {}, done);
    return done;
  };
  const Generation in_f32 = run(a, simulated), in_codes = run(b, executed);
  EXPECT_EQ(in_f32.tokens, in_codes.tokens);
  EXPECT_LT(in_codes.weight_bytes, 0.6 * in_f32.weight_bytes);  // the head stays f32
}

TEST(GenerateTest, WhatCannotBeIsRefusedBeforeAnythingIsComputed) {
  Model model(GoldenFolder("llama-mha"));
  const auto refused = [&](const std::vector<int32_t>& prompt, const GenerateOptions& options, const char* message) {
    Generation done;
    EXPECT_THAT([&] { Generate(model, {}, prompt, options, {}, [](int32_t) {}, done); },
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
  EXPECT_THAT([&] { CheckCacheFits(large, {}, 1 << 20); }, ThrowsMessage<Error>(HasSubstr("more than the")));
}

TEST(GenerateTest, EndTokensAreThoseOfTheCheckpoint) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(EndTokens(folder.path()), ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [3, 9]})");
  EXPECT_THAT(EndTokens(folder.path()), ElementsAre(3, 9));
  write("generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_THAT([&] { EndTokens(folder.path()); }, ThrowsMessage<Error>(HasSubstr("eos_token_id: got \"x\"")));
  write("generation_config.json", R"({"eos_token_id": 4294967298})");
  EXPECT_THAT([&] { EndTokens(folder.path()); }, ThrowsMessage<Error>(HasSubstr("eos_token_id: got 4294967298")));
  write("generation_config.json", R"({})");
  write("config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(EndTokens(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace tare
