// SPDX-License-Identifier: Apache-2.0
// Executed plans in whole models, compared with simulated ones. Both round Q, K, V and the probabilities to the same
// codes, except where the exponential's fixed-point rounding changes one. In one layer that stays well below the effect
// of quantization itself. Over several layers a changed code changes what the next layer rounds, until two roundings of
// the same values are as good as independent: then sqrt(2) of the effect, and less than all of it before.
#include "experiments/model/plan_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "experiments/model/config/read_config.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::plan_run_test {
namespace {

TokenBatch HeldoutBatch(const std::string& model, int64_t tokens) {
  std::ifstream file(PairFolder("heldout.txt"));
  std::string text(20000, '\0');
  file.read(text.data(), std::ssize(text));
  std::vector<int32_t> ids = Tokenizer::Load(PairFolder(model)).Encode(text);
  ids.resize(static_cast<size_t>(2 * tokens));
  TokenBatch batch;
  batch.Add(0, std::span(ids).first(tokens));
  batch.Add(1, std::span(ids).subspan(tokens - 30, 30));  // short, and a second place in the batch
  return batch;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(sum);
}

std::vector<float> Under(Model& model, const TokenBatch& batch, const char* plan, Carrying carrying) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, batch, visitors);
}

struct ExecutedCase {
  const char* model;
  const char* plan;
  double share;  // of the effect
};

class ExecutedPlanTest : public ::testing::TestWithParam<ExecutedCase> {};

TEST_P(ExecutedPlanTest, StaysInsideTheQuantizationsOwnEffect) {
  Model model(PairFolder(GetParam().model));
  const TokenBatch batch = HeldoutBatch(GetParam().model, 200);
  const std::vector<float> f32 = Under(model, batch, "", Carrying::kSimulated),
                           simulated = Under(model, batch, GetParam().plan, Carrying::kSimulated),
                           executed = Under(model, batch, GetParam().plan, Carrying::kExecuted);
  const double effect = Distance(simulated, f32), apart = Distance(executed, simulated);
  RecordProperty("share_of_effect", std::to_string(apart / effect));
  EXPECT_GT(effect, 0);
  EXPECT_GT(apart, 0);  // not the simulation run twice
  EXPECT_LT(apart, GetParam().share * effect) << GetParam().plan << ": effect " << effect;
  EXPECT_EQ(Under(model, batch, "", Carrying::kExecuted), f32);  // and nothing of it stays
}

constexpr const char* kLate = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
constexpr double kOneLayer = 0.3, kAllLayers = 1.0;

INSTANTIATE_TEST_SUITE_P(
    PlanRunTest, ExecutedPlanTest,
    ::testing::Values(
        ExecutedCase{"novels-standard", kLate, kAllLayers}, ExecutedCase{"novels-differential", kLate, kAllLayers},
        ExecutedCase{"novels-differential", "q=int8/token,k=int8/token,difference=int8/block64,v=int8/block64.channel",
                     kAllLayers},
        ExecutedCase{"novels-differential", "q=int8/token,k=int8/token,difference=u8/block64,v=int8/block64.channel",
                     kAllLayers},
        ExecutedCase{"novels-differential", "q=int4/token,k=int4/token,probs=u4/block64,v=int4/channel", kAllLayers},
        ExecutedCase{"novels-standard",
                     "q[l1]=int8/token,k[l1]=int8/token,probs[l1]=u8/block64,v[l1]=int8/block64.channel", kOneLayer},
        ExecutedCase{"novels-differential",
                     "q[l1]=int8/token,k[l1]=int8/token,difference[l1]=int8/block64,v[l1]=int8/block64.channel",
                     kOneLayer},
        ExecutedCase{"novels-differential",
                     "q[l1]=int8/token,k[l1]=int8/token,difference[l1]=u6/block64,v[l1]=int8/block64.channel",
                     kOneLayer},
        ExecutedCase{"novels-differential", "q[l0]=int6/token,k[l0]=int6/token,probs[l0]=u6/block64,v[l0]=int6/channel",
                     kOneLayer},
        ExecutedCase{
            "novels-differential",
            "q[l1]=int4/token+smooth,k[l1]=int4/token+smooth,difference[l1]=u8/block64,v[l1]=int8/block64.channel",
            kOneLayer},
        ExecutedCase{
            "novels-standard",
            "q[l2]=int4/token,k[l2]=int4/token+smooth,probs[l2]=u8/block128,v[l2]=int4/block128.channel+smooth",
            kOneLayer},
        ExecutedCase{
            "novels-standard",
            "q[l1]=int8/token,k[l1]=int8/token,probs[l1]=u8/block64,v[l1]=int8/channel,attn_logits[l1]=int6/row",
            kOneLayer},
        ExecutedCase{"novels-standard",
                     "q[l1]=int4/token+smooth+hadamard,k[l1]=int4/token+hadamard,probs[l1]=u8/block64,"
                     "v[l1]=int4/block64.channel+hadamard16",
                     kOneLayer},
        ExecutedCase{"novels-differential",
                     "q[l1]=int4/token+hadamard8,k[l1]=int4/token+hadamard8,difference[l1]=u8/block64,"
                     "v[l1]=int4/block64.channel+smooth+hadamard",
                     kOneLayer},
        ExecutedCase{"novels-standard", "weights[l1]=int4/group16+hadamard16,linear_in[l1]=int4/token+hadamard16",
                     kOneLayer},
        ExecutedCase{"novels-differential",
                     "down_proj.w[l1]=int4/group16+zero+hadamard,down_proj.in[l1]=int4/token+hadamard,"
                     "q_proj.w[l1]=int4/channel+hadamard64,q_proj.in[l1]=int8/token+hadamard64,"
                     "k_proj.w[l1]=int4/channel,k_proj.in[l1]=int8/token",
                     kOneLayer},
        ExecutedCase{"novels-standard", "lm_head.w=int4/group64+hadamard,lm_head.in=int8/token+hadamard", kOneLayer},
        ExecutedCase{"novels-standard", "weights=int8/channel,linear_in=int8/token", kAllLayers},
        ExecutedCase{"novels-differential", "int8", kAllLayers}, ExecutedCase{"novels-standard", "int4", kAllLayers},
        ExecutedCase{"novels-differential", "weights=int4/group16,linear_in=int8/token", kAllLayers},
        ExecutedCase{"novels-differential",
                     "weights=int6/channel,linear_in=int6/token,q=int8/token,k=int8/token,"
                     "probs=u8/block64,v=int8/block64.channel",
                     kAllLayers},
        ExecutedCase{"novels-standard", "weights[l1]=int4/tensor,linear_in[l1]=int4/token", kOneLayer},
        ExecutedCase{"novels-standard", "lm_head.w=int4/group64,lm_head.in=int8/token", kOneLayer},
        ExecutedCase{"novels-differential", "weights[l1]=int8/channel+mse,linear_in[l1]=int8/token", kOneLayer}));

// Codes of weights alone stand for f32 numbers: executed is simulated, to the bit.
TEST(PlanRunTest, WeightsAloneAreDequantized) {
  Model model(PairFolder("novels-standard"));
  const TokenBatch batch = HeldoutBatch("novels-standard", 40);
  const char* plan = "weights=int4/group16";
  EXPECT_EQ(Under(model, batch, plan, Carrying::kExecuted), Under(model, batch, plan, Carrying::kSimulated));
  EXPECT_NE(Under(model, batch, plan, Carrying::kExecuted), Under(model, batch, "", Carrying::kSimulated));
}

// Of a model whose rounded weights would take too much memory, they are made for each product, and nothing else
// changes: of many rows, and of one, which runs on packed codes.
TEST(PlanRunTest, RoundedWeightsThatAreNotKept) {
  Model kept(PairFolder("novels-differential")), made(PairFolder("novels-differential"), Math::kF32, {.rounded = 0});
  const TokenBatch many = HeldoutBatch("novels-differential", 40);
  TokenBatch one;
  one.Add(0, std::span(many.tokens).first(1));
  const LinearWeights &kept_gate = kept.layers()[0].gate, &made_gate = made.layers()[0].gate;
  for (const Carrying carrying : {Carrying::kSimulated, Carrying::kExecuted}) {
    for (const char* plan : {"weights=int4/group16,o_proj.w=int4/group16+mse,linear_in[l1]=int8/token",
                             "weights=nvfp4,gate_proj.w=fp8e4m3/channel",
                             "weights=int4/channel+hadamard,linear_in[l1]=int8/token+hadamard"}) {
      const std::vector<float> expected = Under(kept, many, plan, carrying);
      EXPECT_EQ(Under(made, many, plan, carrying), expected) << plan;
      EXPECT_EQ(Under(made, one, plan, carrying), Under(kept, one, plan, carrying)) << plan;
      EXPECT_TRUE(kept_gate.Holds()) << plan;
      EXPECT_EQ(made_gate.Holds(), made_gate.HoldsCodes()) << plan;
      EXPECT_EQ(made_gate.HoldsCodes(), kept_gate.HoldsCodes()) << plan;
      EXPECT_NE(Under(made, many, "", carrying), expected);  // and nothing of it stays
    }
  }
}

// One token's inputs are rotated for its packed weights, which take them in 15 bits: a 2^-14th of a block's largest.
TEST(PlanRunTest, OneTokenMeetsRotatedWeights) {
  Model model(PairFolder("novels-standard"));
  const TokenBatch many = HeldoutBatch("novels-standard", 40);
  TokenBatch one;
  one.Add(0, std::span(many.tokens).first(1));
  const std::vector<float> f32 = Under(model, one, "", Carrying::kSimulated);
  for (const char* plan :
       {"weights=int4/group16+hadamard16", "weights=int4/channel+hadamard", "weights=int4/group16"}) {
    const std::vector<float> simulated = Under(model, one, plan, Carrying::kSimulated),
                             executed = Under(model, one, plan, Carrying::kExecuted);
    EXPECT_GT(Distance(executed, simulated), 0) << plan;
    EXPECT_LT(Distance(executed, simulated), 0.01 * Distance(simulated, f32)) << plan;
  }
}

TEST(PlanRunTest, ExecutedSequencesAreRunWhole) {
  const ModelSites model = ModelSitesOf(LoadConfig(PairFolder("novels-standard")));
  EXPECT_TRUE(PlanRun(Plan::Parse(kLate), Carrying::kExecuted, model).SpansRows());
  EXPECT_FALSE(PlanRun(Plan::Parse("attn_logits=int6/row"), Carrying::kSimulated, model).SpansRows());
  const char* const linear = "weights=int8/channel,linear_in=int8/token";
  EXPECT_FALSE(PlanRun(Plan::Parse(linear), Carrying::kExecuted, model).SpansRows());
  EXPECT_TRUE(PlanRun(Plan::Parse(kLate), Carrying::kSimulated, model).LooksAhead());
}

// Layers with and without windows, and a scale that is not of the head's width: another of either would be many times
// the effect.
TEST(ExecutedPlan, FollowsEveryLayersMaskAndScale) {
  for (const char* golden : {"qwen2", "gemma3"}) {
    const char* const plan = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel";
    Model model(GoldenFolder(golden));
    const TokenBatch batch = GoldenBatch(golden);
    const std::vector<float> f32 = Under(model, batch, "", Carrying::kSimulated),
                             simulated = Under(model, batch, plan, Carrying::kSimulated);
    const double effect = Distance(simulated, f32);
    EXPECT_GT(effect, 0) << golden;
    EXPECT_LT(effect, 0.05 * Distance(f32, std::vector<float>(f32.size()))) << golden;
    EXPECT_LT(Distance(Under(model, batch, plan, Carrying::kExecuted), simulated), 1.5 * effect) << golden;
  }
}

}  // namespace
}  // namespace tare::plan_run_test
