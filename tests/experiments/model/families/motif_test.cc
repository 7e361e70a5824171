// SPDX-License-Identifier: Apache-2.0
// lambda_init, grouped heads (whose shared noise map is shown once), and refusals; parity_test.cc compares the forward
// pass with golden data.
#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::motif_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MotifTest, LambdaInitCountsLayersFromMinusOne) {
  const Model model(GoldenFolder("motif"));
  EXPECT_FLOAT_EQ(*model.layers()[0].lambda_init, -0.0099152845f);
  EXPECT_FLOAT_EQ(*model.layers()[1].lambda_init, 0.2f);
}

// Counts the blocks of each map, and scales the attention logits of noise heads where `changes`.
class Counter : public SiteVisitor {
 public:
  explicit Counter(bool changes) : changes_(changes) {}
  bool Wants(Site site, std::optional<int>) const override { return site == Site::kAttnLogits; }
  bool Changes() const override { return changes_; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    ++seen[*block.head];
  }
  std::map<int, int> seen;

 private:
  bool changes_;
  std::mutex mutex_;
};

// 2 groups of 4 signal heads and a noise head, two layers and sequences: who looks sees each map once, who changes it
// changes it wherever it is used.
TEST(MotifTest, ANoiseMapIsShownOnce) {
  Model model(GoldenFolder("motif-gda"));
  EXPECT_EQ(model.layers()[0].heads.size(), 8u);
  EXPECT_EQ(HeadsOf(Site::kAttnLogits, model.config()), 10);
  Counter looks(false), changes(true);
  SiteVisitor* const visitors[] = {&looks, &changes};
  model.Forward(GoldenBatch("motif-gda"), visitors);
  for (int head = 0; head < 10; ++head) {
    const bool noise = head % 5 == 4;
    EXPECT_EQ(looks.seen[head], 4) << head;
    EXPECT_EQ(changes.seen[head], noise ? 16 : 4) << head;
  }
}

TEST(MotifTest, PlansAreExecuted) {
  for (const char* name : {"motif", "motif-gda"}) {
    Model model(GoldenFolder(name));
    const TokenBatch batch = GoldenBatch(name);
    const std::vector<float> exact = LogitsOf(model, batch);
    for (const char* plan : {"int8", "q=int8/token,k=int8/token,difference=u8/block64,v=int8/block64.channel"}) {
      PlanRun run(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(model));
      const SiteVisitors none = run.Begin(model);
      EXPECT_TRUE(AllNear(LogitsOf(model, batch, none), exact, 0.1)) << name << " " << plan;
    }
    for (const char* plan : {"attn_logits[m2]=int4/row", "attn_logits=int6/tensor", "difference=int8/row"}) {
      PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
      EXPECT_TRUE(AllNear(LogitsOf(model, batch, run.Begin(model)), exact, 0.3)) << name << " " << plan;
    }
  }
}

TEST(MotifTest, ImpossibleValuesAreRefusedByKey) {
  const auto refuses = [](const char* key, const nlohmann::json& value, const char* why) {
    nlohmann::json json = EditedCheckpoint(GoldenFolder("motif-gda")).config;
    json[key] = value;
    EXPECT_THAT(Call([&] { ParseConfig(json.dump(), "c.json"); }), ThrowsMessage<Error>(HasSubstr(why))) << key;
  };
  refuses("num_noise_heads", 3, "c.json: num_attention_heads: got 10, expected a multiple of num_noise_heads 3");
  refuses("num_noise_heads", 10, "c.json: num_attention_heads: got 10, expected a multiple of num_noise_heads 10");
  refuses("num_key_value_heads", 3, "c.json: num_key_value_heads: got 3, expected an even number");
  refuses("num_key_value_heads", 8, "c.json: num_key_value_heads: got 8, expected an even number whose half divides 2");
  refuses("hidden_act", "silu", "c.json: hidden_act: got 'silu', expected poly_norm");
  refuses("k_ratio", 2, "c.json: k_ratio: 2 is not supported");
  refuses("kv_lora_rank", 512, "c.json: kv_lora_rank: 512 is not supported");
  refuses("qkv_bias", true, "c.json: qkv_bias: got true, expected what use_bias says, false");
}

// The public checkpoints write it with a capital.
TEST(MotifTest, ItsNameMayHaveACapital) {
  nlohmann::json json = EditedCheckpoint(GoldenFolder("motif")).config;
  json["model_type"] = "Motif";
  EXPECT_EQ(ParseConfig(json.dump(), "c.json").family, "motif");
}

}  // namespace
}  // namespace tare::motif_test
