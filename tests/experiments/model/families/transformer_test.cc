// SPDX-License-Identifier: Apache-2.0
// flash-linear-attention's transformer: its keys, softpick and softmax against golden data, plans and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::transformer_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kGolden[] = {"softpick/plain", "softpick/gqa", "softpick/vanilla"};

nlohmann::json Config(const char* name) { return ReadJson(GoldenFolder(name) / "config.json"); }

std::vector<float> Under(Model& model, const char* golden, const std::string& plan,
                         Carrying carrying = Carrying::kSimulated) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(golden), visitors);
}

TEST(TransformerTest, WhatKeysSay) {
  const ModelConfig c = Parsed(Config("softpick/gqa"));
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.ffn, 256);  // of 2/3 * 2 * 32
  EXPECT_TRUE(c.attention_bias && c.qk_norm && c.tied_embeddings);
  EXPECT_EQ(c.row_weights, RowWeights::kSoftpick);
  EXPECT_EQ(c.rotary.theta, 500);
  EXPECT_EQ(Parsed(Config("softpick/vanilla")).row_weights, RowWeights::kSoftmax);
  EXPECT_EQ(Parsed(With(Config("softpick/plain"), "intermediate_size", nullptr)).ffn, 256);
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    ExpectConfigRefused(With(Config("softpick/plain"), key, value), key, why);
  };
  refused("attn_impl", "parallel_scaled_softpick_attn", "others are not supported");
  refused("window_size", 7, "7 is not supported");
  refused("elementwise_affine", false, "not supported");
  ExpectConfigRefused(With(Config("softpick/plain"), "num_heads", 5), "hidden_size",
                      "expected a multiple of num_heads 5");
  refused("hidden_act", "gelu_", "got 'gelu_', expected");
}

TEST(TransformerTest, LogitsAndGreedyTokensAreTheReferences) {
  for (const char* name : kGolden) {
    Model model(GoldenFolder(name));
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    EXPECT_TRUE(AllNear(LogitsOf(model, GoldenBatch(name)), ValuesOf<float>(expected, "logits"), 2e-5)) << name;
    const nlohmann::json greedy = ReadJson(GoldenFolder(name) / "greedy.json");
    const auto& first = greedy.at(0);
    std::vector<int32_t> tokens = first.at("prompt");
    for (const int32_t wanted : first.at("tokens")) {
      TokenBatch batch;
      batch.Add(0, tokens);
      const std::vector<float> logits = LogitsOf(model, batch);
      const auto last = logits.end() - model.config().vocabulary;
      ASSERT_EQ(std::max_element(last, logits.end()) - last, wanted) << name << " after " << tokens.size();
      tokens.push_back(wanted);
    }
  }
}

// probs.{i} [2, heads, T, T]: rows that sum to less than 1, and some to 0.
TEST(TransformerTest, RowsNeedNotSumToOne) {
  const char* const name = "softpick/plain";
  Model model(GoldenFolder(name));
  const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
  const int64_t T = expected.Find("input_ids")->shape[1];
  struct Rows : SiteVisitor {
    Rows(const Safetensors& file, int64_t tokens) : expected(file), T(tokens) {}
    bool Wants(Site site, std::optional<int>) const override { return site == Site::kProbs; }
    void Visit(const SiteBlock& b, int) override {
      const auto want = ValuesOf<float>(expected, "probs." + std::to_string(*b.layer));
      for (int64_t r = 0; r < b.rows; ++r) {
        float sum = 0;
        for (int64_t c = b.First(r); c < b.Columns(r); ++c) {
          const float p = b.Row(r)[static_cast<size_t>(c - b.First(r))];
          EXPECT_NEAR(p, want[((b.sequence * 3 + *b.head) * T + b.first_row + r) * T + c], 2e-5);
          sum += p;
        }
        EXPECT_LT(sum, 1 + 1e-6);
        rows += 1, zero += sum == 0 ? 1 : 0;
      }
    }
    const Safetensors& expected;
    int64_t T;
    std::atomic<int64_t> rows = 0, zero = 0;
  } rows(expected, T);
  SiteVisitor* const visitors[] = {&rows};
  LogitsOf(model, GoldenBatch(name), visitors);
  EXPECT_EQ(rows.rows, 3 * 2 * 3 * T);
  EXPECT_GT(rows.zero, 0);
}

TEST(TransformerTest, PlansOfSoftpick) {
  const char* const name = "softpick/plain";
  Model model(GoldenFolder(name));
  const std::vector<float> exact = Under(model, name, "");
  for (const char* plan : {"attn_logits=int8/row", "probs=u8/block64+unnormalized", "q=int8/token,k=int8/token+smooth",
                           "weights=int8/channel", "linear_in=int8/token"}) {
    const std::vector<float> rounded = Under(model, name, plan);
    EXPECT_NE(rounded, exact) << plan;
    EXPECT_TRUE(AllNear(rounded, exact, 0.1)) << plan;
  }
  const auto refuses = [&](const char* plan, Carrying carrying, const char* why) {
    EXPECT_THAT(Call([&] { Under(model, name, plan, carrying); }), ThrowsMessage<UsageError>(HasSubstr(why))) << plan;
  };
  refuses("attn_logits=int8/row+sink", Carrying::kSimulated, "got +sink, expected none, as softpick");
  refuses("attn_logits=int8/row+maxshift", Carrying::kSimulated, "a constant added to logits changes softpick");
  refuses("probs=u8/block64", Carrying::kSimulated, "expected +unnormalized, as softpick's rows do not sum to 1");
  refuses("q=int8/token,k=int8/token,v=int8/block64.channel,probs=u8/block64+unnormalized", Carrying::kExecuted,
          "got softpick, expected softmax");
  EXPECT_THAT(Call([&] { SequenceCache(model.config(), CachePlan()); }),
              ThrowsMessage<Error>(HasSubstr("got softpick")));
  Model vanilla(GoldenFolder("softpick/vanilla"));
  EXPECT_NO_THROW(Under(vanilla, "softpick/vanilla", "attn_logits=int8/row+sink+maxshift,probs=u8/block64"));
  EXPECT_NO_THROW(SequenceCache(vanilla.config(), CachePlan()));
}

}  // namespace
}  // namespace tare::transformer_test
