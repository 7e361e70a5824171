// SPDX-License-Identifier: Apache-2.0
// Executed plans in whole models, compared with simulated ones. Both round Q, K, V and the probabilities to the same
// codes, except where the exponential's fixed-point rounding changes one. In one layer that stays well below the effect
// of quantization itself. Over several layers a changed code changes what the next layer rounds, until two roundings of
// the same values are as good as independent: then sqrt(2) of the effect, and less than all of it before.
// Also: a model's sites compared with those that its forward pass shows; which rules a prompt's attention gets, and
// what is refused with a cache.
#include "experiments/model/plan_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "experiments/model/config/config.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/emulated.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare::plan_run_test {
namespace {

constexpr int64_t kTokens = kEmulated ? 66 : 130;  // more than a block of 64, and of 128
constexpr int64_t kFew = kEmulated ? 18 : 40;      // more than the kernel of few tokens takes

TokenBatch HeldoutBatch(const std::string& model, int64_t tokens) {
  std::ifstream file(PairFolder("heldout.txt"));
  std::string text(4000, '\0');  // more than the tokens need
  file.read(text.data(), std::ssize(text));
  std::vector<int32_t> ids = Tokenizer::Load(PairFolder(model)).Encode(text);
  ids.resize(static_cast<size_t>(2 * tokens));
  TokenBatch batch;
  batch.Add(0, std::span(ids).first(tokens));
  const int64_t shorter = tokens * 3 / 20;
  batch.Add(1, std::span(ids).subspan(tokens - shorter, shorter));  // and a second place in the batch
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

// A demo model with its text and its logits, which the cases share.
struct DemoModel {
  explicit DemoModel(const std::string& name)
      : model(PairFolder(name)),
        batch(HeldoutBatch(name, kTokens)),
        f32(Under(model, batch, "", Carrying::kSimulated)) {}
  Model model;
  TokenBatch batch;
  std::vector<float> f32;
};

struct ExecutedCase {
  const char* model;
  const char* plan;
  double share;  // of the effect
};

class ExecutedPlanTest : public ::testing::TestWithParam<ExecutedCase> {};

TEST_P(ExecutedPlanTest, StaysInsideTheQuantizationsOwnEffect) {
  static std::map<std::string, DemoModel>& models = *new std::map<std::string, DemoModel>;
  auto& [model, batch, f32] = models.try_emplace(GetParam().model, GetParam().model).first->second;
  const std::vector<float> simulated = Under(model, batch, GetParam().plan, Carrying::kSimulated),
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
        ExecutedCase{"novels-differential", "weights=int4/group16,linear_in=nvfp4", kAllLayers},
        ExecutedCase{"novels-standard", "weights=nvfp4+hadamard16,linear_in[l1]=mxfp4+hadamard16", kOneLayer},
        ExecutedCase{"novels-standard", "weights=mxfp4,linear_in[l1]=nvint4", kOneLayer},
        // No later layer rounds what these change: f32's own rounding, whichever sequence's f32 per tensor is NVFP4's.
        ExecutedCase{"novels-differential", "down_proj.w=int8/channel,down_proj.in[l2]=nvfp4", 1e-4},
        ExecutedCase{"novels-standard", "down_proj.w=int4/group16+zero,down_proj.in[l2]=if4", 1e-4},
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
        ExecutedCase{"novels-standard", "int-flash", kAllLayers},
        ExecutedCase{"novels-differential", "int-flash", kAllLayers},
        ExecutedCase{"novels-differential",
                     "q[l1]=int8/token,k[l1]=int8/token,probs[l1]=u8/row+unnormalized,v[l1]=int8/head", kOneLayer},
        ExecutedCase{"novels-standard",
                     "q[l1]=int6/tokens32.by8,k[l1]=int6/tokens64.by4x2+smoothall,probs[l1]=u6/block64+top40,"
                     "v[l1]=int6/channel",
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
  const TokenBatch batch = HeldoutBatch("novels-standard", kFew);
  const char* plan = "weights=int4/group16";
  EXPECT_EQ(Under(model, batch, plan, Carrying::kExecuted), Under(model, batch, plan, Carrying::kSimulated));
  EXPECT_NE(Under(model, batch, plan, Carrying::kExecuted), Under(model, batch, "", Carrying::kSimulated));
}

// Inputs that the kernels do not take, for their format, options or weights, are rounded as a simulated plan has them,
// a scale of all tokens included, and multiplied in f32: executed is simulated, to the bit. A later rule's integers and
// the maps are executed beside them.
TEST(PlanRunTest, InputsThatTheKernelsDoNotTakeAreSimulated) {
  Model model(PairFolder("novels-differential"));
  const TokenBatch batch = HeldoutBatch("novels-differential", kFew);
  const std::vector<float> f32 = Under(model, batch, "", Carrying::kSimulated);
  for (const char* plan :
       {"linear_in=fp8e4m3/token", "linear_in=mxfp4", "weights=int4/group16,linear_in=mxfp8e4m3,lm_head.in=nvfp4",
        "weights=nvfp4+hadamard16,linear_in=mxfp4", "weights=int4/channel,linear_in=nf4/group32"}) {
    const std::vector<float> executed = Under(model, batch, plan, Carrying::kExecuted);
    EXPECT_EQ(executed, Under(model, batch, plan, Carrying::kSimulated)) << plan;
    EXPECT_NE(executed, f32) << plan;
  }
  const char* mixed = "weights=int8/channel,linear_in=fp8e4m3/token,down_proj.in[l1]=int8/token";
  const std::vector<float> simulated = Under(model, batch, mixed, Carrying::kSimulated),
                           executed = Under(model, batch, mixed, Carrying::kExecuted);
  EXPECT_GT(Distance(executed, simulated), 0);
  EXPECT_LT(Distance(executed, simulated), kAllLayers * Distance(simulated, f32));
  const std::string with_maps = Formatted("{},linear_in=mxfp4", kLate);
  EXPECT_NE(Under(model, batch, with_maps.c_str(), Carrying::kExecuted),
            Under(model, batch, kLate, Carrying::kExecuted));
}

// Rounded weights that would take too much memory are made for each product, and nothing else changes: for a product of
// many rows, and for a product of one, which runs on packed codes.
TEST(PlanRunTest, RoundedWeightsThatAreNotKept) {
  Model kept(PairFolder("novels-differential")), made(PairFolder("novels-differential"), Math::kF32, {.rounded = 0});
  const TokenBatch many = HeldoutBatch("novels-differential", kFew);
  TokenBatch one;
  one.Add(0, std::span(many.tokens).first(1));
  const LinearWeights &kept_gate = kept.layers()[0].gate, &made_gate = made.layers()[0].gate;
  const auto holds_codes = [](const LinearWeights& w) {  // values take two bytes at least
    return w.Bytes() < 2.0 * static_cast<double>(w.stored().out) * static_cast<double>(w.stored().in);
  };
  for (const Carrying carrying : {Carrying::kSimulated, Carrying::kExecuted}) {
    for (const char* plan : {"weights=int4/group16,o_proj.w=int4/group16+mse,linear_in[l1]=int8/token",
                             "weights=nvfp4,gate_proj.w=fp8e4m3/channel",
                             "weights=int4/channel+hadamard,linear_in[l1]=int8/token+hadamard"}) {
      const auto under = [&](Model& model) {
        PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
        const SiteVisitors visitors = run.Begin(model);
        return std::pair(LogitsOf(model, many, visitors), LogitsOf(model, one, visitors));
      };
      const auto expected = under(kept);
      EXPECT_EQ(under(made), expected) << plan;
      EXPECT_TRUE(kept_gate.Holds()) << plan;
      EXPECT_EQ(made_gate.Holds(), holds_codes(made_gate)) << plan;
      EXPECT_EQ(holds_codes(made_gate), holds_codes(kept_gate)) << plan;
      EXPECT_NE(Under(made, many, "", carrying), expected.first);  // and nothing of it stays
    }
  }
}

// One token's inputs are rotated for its packed weights, which take them in 15 bits: a 2^-14th of a block's largest.
TEST(PlanRunTest, OneTokenMeetsRotatedWeights) {
  Model model(PairFolder("novels-standard"));
  const TokenBatch many = HeldoutBatch("novels-standard", kFew);
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

namespace tare::sites_of_model_test {
namespace {

TEST(ModelSitesOf, MatchesTheForwardPass) {
  for (const char* name : kGoldenCheckpoints) {
    Model model(GoldenFolder(name));
    Recorder recorder;
    SiteVisitor* const visitors[] = {&recorder};
    model.Forward(GoldenBatch(name), visitors);
    std::set<SiteKey> shown, expected;
    for (const auto& [key, seen] : recorder.sites) shown.insert(key);
    const ModelSites sites = ModelSitesOf(model);
    for (const SiteInfo& info : kSites) {
      if (IsWeight(info.site) || IsCache(info.site)) continue;
      for (const SiteKey& key : sites.Keys(info.site)) expected.insert(key);
    }
    EXPECT_EQ(shown, expected) << name;
    std::set<SiteKey> weights{{Site::kLmHeadW}};
    for (int layer = 0; layer < sites.layers; ++layer) {
      for (const LinearLayer& linear : LinearLayersOf(model.config(), layer)) weights.insert(linear.WeightKey());
    }
    EXPECT_EQ(sites.weights.size(), weights.size());
    const bool experts = model.config().experts > 0;
    const SiteKey down{.site = experts ? Site::kExpertsDownW : Site::kDownProjW,
                       .layer = 1,
                       .expert = experts ? std::optional(1) : std::nullopt};
    if (model.config().ffn > 0) {
      EXPECT_EQ(sites.weights.at(down).in, model.config().ffn);
    }
  }
}

// What an output head reads is of its group, at every site; and there are as many groups as key heads that no output
// head joins.
TEST(ModelSitesOf, GroupsAreWhatSharesKeysOrValues) {
  for (const char* name : kGoldenCheckpoints) {
    const ModelConfig config = LoadConfig(GoldenFolder(name));
    const ModelSites sites = ModelSitesOf(config);
    const std::vector<OutputHead> table = HeadTable(config);
    for (size_t h = 0; h < table.size(); ++h) {
      const auto at = [&](Site site, int head) { return sites.GroupAt({site, 1, head}); };
      const std::optional<int> group = at(Site::kHeadOut, static_cast<int>(h));
      ASSERT_TRUE(group) << name;
      for (int map = 0; map < table[h].Maps(); ++map) {
        for (const Site site : {Site::kQ, Site::kAttnLogits, Site::kProbs})
          EXPECT_EQ(at(site, table[h].Q(map)), group) << name << ' ' << h;
        EXPECT_EQ(at(Site::kK, table[h].K(map)), group) << name << ' ' << h;
      }
      for (int slice = 0; slice < table[h].VSlices(); ++slice)
        EXPECT_EQ(at(Site::kV, table[h].v[slice]), group) << name;
    }
    EXPECT_EQ(sites.GroupAt({Site::kLayerOut, 0}), std::nullopt);
  }
  const auto groups = [](const char* name) {
    const ModelSites sites = ModelSitesOf(LoadConfig(GoldenFolder(name)));
    return sites.groups.at(Site::kQ);
  };
  EXPECT_EQ(groups("llama-gqa"), (std::vector<int>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(groups("diffllama-gqa"), (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(groups("diff-v2-gqa"), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(groups("llama-mha"), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tare::sites_of_model_test

namespace tare::prompt_plan_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// The plan of a prompt in a differential model of two layers.
PromptPlan Of(const std::string& text, const CachePolicy& policy = {}) {
  ModelSites model{.family = "diffllama", .layers = 2, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : {Site::kQ, Site::kK, Site::kAttnLogits, Site::kProbs}) model.heads[site] = {1, 1, 2, 2};
  model.heads[Site::kV].resize(4);
  model.heads[Site::kDifference].resize(2);
  return PromptPlanOf(Plan::Parse(text), model, policy);
}

TEST(PromptPlan, RulesOfAttentionAreThePromptsAlone) {
  const PromptPlan plan = Of("int8");
  EXPECT_EQ(plan.others.canonical(), "weights=int8/channel,linear_in=int8/token");
  ASSERT_EQ(plan.attention.size(), 2u);
  EXPECT_EQ(plan.attention[1]->attention.q, Format::kInt8);
  EXPECT_EQ(plan.attention[1]->attention.block, 64);
}

TEST(PromptPlan, LayersMayDiffer) {
  const PromptPlan plan =
      Of("cache_k=int4/token,q=int8/token,k=int8/token,difference=u8/block128,v=int4/block128.channel,q[l0]=f32,"
         "k[l0]=f32,v[l0]=f32,difference[l0]=f32,weights=int4/group16");
  EXPECT_EQ(plan.others.canonical(), "cache_k=int4/token,weights=int4/group16");
  ASSERT_EQ(plan.attention.size(), 2u);
  EXPECT_FALSE(plan.attention[0].has_value());
  EXPECT_EQ(plan.attention[1]->attention.order, AttentionPlan::Order::kEarly);
}

TEST(PromptPlan, WithoutRulesOfAttentionThereIsNothing) {
  for (const char* text : {"", "f32", "weights=int8/channel,linear_in=int8/token", "q=f32,cache_v=bf16"}) {
    const PromptPlan plan = Of(text, {.last = 8});
    EXPECT_TRUE(plan.attention.empty()) << text;
  }
}

TEST(PromptPlan, RefusalsNameTheRule) {
  const auto refused = [](const std::string& text, const char* why, const CachePolicy& policy = {}) {
    EXPECT_THAT(Call([&] { Of(text, policy); }), ThrowsMessage<Error>(HasSubstr(why))) << text;
  };
  const std::string qk = "q=int8/token,k=int8/token,", v = "v=int8/block64.channel,probs=u8/block64";
  refused("q=int8/token", "plan rule 'q=int8/token': got k in f32 in layer 0");
  refused(qk + "attn_logits=int8/head," + v, "plan rule 'attn_logits=int8/head': got a scale per head");
  refused(qk + "probs=u8/row,v=int8/head", "plan rule 'v=int8/head': got a scale per head, expected one");
  refused(qk + "probs=u8/block64,v=int8/channel", "plan rule 'v=int8/channel': got a scale per channel, expected one");
  refused("q=int8/token+smooth,k=int8/token," + v, "plan rule 'q=int8/token+smooth': got +smooth, expected none over");
  refused(qk + v, "got rules for attention beside last=8, which moves", {.last = 8});
  refused(qk + v, "beside keep=h2o/64", {.keep = {.policy = KeepPolicy::kH2o, .keys = 64}});
  refused(qk + v, "beside skip=0.5", {.first = 4, .skip = 0.5f});
  EXPECT_EQ(Of(qk + v, {.first = 4}).attention.size(), 2u);
}

}  // namespace
}  // namespace tare::prompt_plan_test
