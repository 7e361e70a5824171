// SPDX-License-Identifier: Apache-2.0
// Which rule holds where, and every refusal of a plan.
#include "experiments/plan/resolved_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "tests/support/call.h"

namespace tare::resolved_plan_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// 3 layers, 4 heads, of which a differential model makes 2 pairs; K and V have 2.
ModelSites Sites(int maps) {
  ModelSites model{.family = maps == 1 ? "llama" : "diffllama",
                   .layers = 3,
                   .maps = maps,
                   .tied_head = false,
                   .decodes = true,
                   .heads = {},
                   .weights = {}};
  for (const Site site : {Site::kQ, Site::kAttnLogits, Site::kProbs}) model.heads[site] = {1, 1, maps, maps};
  model.heads[Site::kK] = {1, maps};
  model.heads[Site::kV] = {std::nullopt, std::nullopt};
  for (const Site site : {Site::kDifference, Site::kHeadOut}) model.heads[site].resize(static_cast<size_t>(4 / maps));
  return model;
}

// Every clip is 3.
std::vector<float> Threes(const Rule&, const SiteKey&) { return {3.0f}; }

ResolvedPlan Simulated(const char* plan) { return {Plan::Parse(plan), Sites(2), Carrying::kSimulated, Threes}; }

TEST(ResolvedPlan, RulesAndClipsByPlace) {
  const ResolvedPlan plan = Simulated("q=int8/head+static,q[l1]=int4/token,q[m2]=f32,layer_out=int6/token");
  EXPECT_EQ(plan.RuleAt({Site::kQ, 0, 0, 1})->format, Format::kInt8);
  EXPECT_EQ(plan.RuleAt({Site::kQ, 1, 0, 1})->format, Format::kInt4);
  EXPECT_EQ(plan.RuleAt({Site::kQ, 1, 2, 2}), nullptr);  // an f32 rule is none
  EXPECT_EQ(plan.RuleAt({Site::kLayerOut, 2})->format, Format::kInt6);
  EXPECT_EQ(plan.RuleAt({Site::kEmbed}), nullptr);
  EXPECT_EQ(plan.ClipAt({Site::kQ, 2, 1, 1}), std::vector<float>{3.0f});
  EXPECT_EQ(plan.clips().size(), 4u);  // layers 0 and 2, heads 0 and 1: where the rule with +static holds
  EXPECT_TRUE(plan.attention().empty());
}

TEST(ResolvedPlan, ScalesThatNeedASurvey) {
  const ResolvedPlan plan = Simulated("q=int8/head,k=int8/tensor+static,v=int8/channel,attn_logits=int4/row");
  EXPECT_TRUE(plan.NeedsSurvey(Site::kQ));
  for (const Site site : {Site::kK, Site::kV, Site::kAttnLogits}) EXPECT_FALSE(plan.NeedsSurvey(site)) << Name(site);
}

// NVFP4's f32 is of the whole tensor, but for maps; kernels take integers.
TEST(ResolvedPlan, FormatsThatAreNotIntegers) {
  const ResolvedPlan plan = Simulated("q=nvfp4,k=mxfp4,attn_logits=nvfp4,probs=nvfp4");
  EXPECT_TRUE(plan.NeedsSurvey(Site::kQ) && plan.NeedsSurvey(Site::kAttnLogits) && plan.SpansRows());
  EXPECT_FALSE(plan.NeedsSurvey(Site::kK) || plan.NeedsSurvey(Site::kProbs));
  EXPECT_FALSE(Simulated("q=mxfp4,probs=nvfp4,difference[l9]=f32,attn_logits=nf4/row").SpansRows());
  EXPECT_TRUE(Simulated("v=mxfp4").SpansRows());
  const auto refused = [](const char* text, Carrying carrying) -> std::string {
    try {
      ResolvedPlan(Plan::Parse(text), Sites(2), carrying, Threes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("q=mxfp4,k=mxfp4,probs=u8/block64,v=int8/channel", Carrying::kExecuted),
            "plan rule 'q=mxfp4': got mxfp4, expected integers, as integer kernels need; try simulating it, as tare "
            "eval does without --executed");
  EXPECT_EQ(refused("weights=nvfp4", Carrying::kStored), "");
  EXPECT_EQ(refused("linear_in=fp8e4m3/token,q_proj.in=nvfp4,lm_head.in=mxfp6e3m2", Carrying::kExecuted), "");
  EXPECT_EQ(refused("cache_k=nvfp4,cache_v=nvint4", Carrying::kSimulated), "");  // no scale of later tokens
  EXPECT_EQ(refused("q=nvfp4+smooth,k=int8/head+smoothall,v=fp8e4m3/tensor+smooth", Carrying::kSimulated), "");
}

// An executed plan rounds inputs in f32 where kernels do not take the format; all else that it names is in codes.
TEST(ResolvedPlan, InputsThatAnExecutedPlanSimulates) {
  const char* const text = "weights=int8/channel,linear_in=fp8e4m3/token,linear_in[l1]=int8/token";
  const ResolvedPlan executed(Plan::Parse(text), Sites(2), Carrying::kExecuted), simulated = Simulated(text);
  const SiteKey first{Site::kQProjIn, 0}, second{Site::kQProjIn, 1}, weight{Site::kQProjW, 0};
  EXPECT_TRUE(executed.Simulates(Site::kQProjIn) && simulated.Simulates(Site::kQProjW));
  EXPECT_FALSE(executed.Simulates(Site::kQProjW) || executed.Simulates(Site::kQ));
  EXPECT_EQ(executed.SimulatedAt(first), executed.RuleAt(first));
  EXPECT_EQ(executed.CodedAt(second), executed.RuleAt(second));
  EXPECT_EQ(executed.CodedAt(weight), executed.RuleAt(weight));
  for (const Rule* none : {executed.SimulatedAt(second), executed.CodedAt(first), executed.SimulatedAt(weight)})
    EXPECT_EQ(none, nullptr);
  for (const SiteKey& key : {first, second}) EXPECT_EQ(simulated.SimulatedAt(key), simulated.RuleAt(key));
}

TEST(ResolvedPlan, KnowsWhetherAScaleSpansRows) {
  for (const char* plan : {"", "attn_logits=f32", "attn_logits=int4/row", "weights=int8/tensor",
                           "q=int8/token,probs=u8/block64,linear_in=int8/group32", "layer_out=int8/tensor+static"})
    EXPECT_FALSE(Simulated(plan).SpansRows()) << plan;
  for (const char* plan :
       {"attn_logits=int8/head", "attn_logits=int8/tensor", "v=int8/block64.channel", "k=int8/token+smooth",
        "q=int8/tokens64", "attn_logits=int4/row,attn_logits[l2,h1,m1]=int8/tensor"})
    EXPECT_TRUE(Simulated(plan).SpansRows()) << plan;
}

TEST(ResolvedPlan, RotationsThatAHeadsWidthLacks) {
  ModelSites model = Sites(1);
  model.head_dim = 33;
  for (const char* rule : {"q=int8/token+hadamard", "k=normal3/token+hadamard", "cache_v=int4/token+hadamard"})
    EXPECT_THAT([&] { ResolvedPlan(Plan::Parse(rule), model, Carrying::kSimulated); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(Formatted("plan rule '{}': ", rule))))
        << rule;
  model.head_dim = 32;
  EXPECT_NO_THROW(ResolvedPlan(Plan::Parse("k=normal3/token+hadamard"), model, Carrying::kSimulated));
}

TEST(ResolvedPlan, LayersThatTheIntegerKernelsExecute) {
  const ResolvedPlan plan(Plan::Parse("q[l1]=int8/token,k[l1]=int8/token,probs[l1]=u8/block64,v[l1]=int8/channel"),
                          Sites(2), Carrying::kExecuted);
  ASSERT_EQ(plan.attention().size(), 3u);
  EXPECT_FALSE(plan.attention()[0]);
  EXPECT_TRUE(plan.attention()[1]);
}

std::string Message(const char* plan, const ModelSites& model, Carrying carrying, const StaticSource& statics = {}) {
  try {
    ResolvedPlan(Plan::Parse(plan), model, carrying, statics);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

struct Refusal {
  const char *plan, *rule, *got, *expected, *attempt;
};

void ExpectRefused(const Refusal& r, const ModelSites& model, Carrying carrying) {
  EXPECT_EQ(Message(r.plan, model, carrying),
            Formatted("plan rule '{}': got {}, expected {}; try {}", r.rule, r.got, r.expected, r.attempt));
}

TEST(ResolvedPlan, SelectorsOfWhatTheModelLacks) {
  const auto refused = [](const char* rule, int maps, const char* what) {
    EXPECT_EQ(Message(rule, Sites(maps), Carrying::kSimulated),
              Formatted("plan rule '{}': got {}; try a selector that this {} model has", rule, what,
                        maps == 1 ? "llama" : "diffllama"));
  };
  refused("attn_logits[l3]=int8/row", 1, "layer 3 of attn_logits, expected 0 to 2");
  refused("attn_logits[l3-5]=int8/row", 1, "layer 3 of attn_logits, expected 0 to 2");
  refused("attn_logits[h4]=int8/row", 1, "head 4 of attn_logits, expected 0 to 3");
  refused("k[h2]=int8/token", 1, "head 2 of k, expected 0 to 1");
  refused("difference[h2]=int8/row", 2, "head 2 of difference, expected 0 to 1");
  refused("attn_logits[m2]=int8/row", 1, "map 2 of attn_logits, expected 1 to 1");
  EXPECT_EQ(Message("attn_logits[l2-9,h3,m2]=int8/row", Sites(2), Carrying::kSimulated), "accepted");
  EXPECT_EQ(Message("attn_logits[h0,m2]=int8/row", Sites(2), Carrying::kSimulated),  // heads 0 and 1 are of map 1
            "plan rule 'attn_logits[h0,m2]=int8/row': got a selector that fits no place of this diffllama model, "
            "expected one that does; try fewer parts");
  EXPECT_EQ(Message("attn_logits[l9]=f32", Sites(2), Carrying::kSimulated), "accepted");
  refused("q[l0,l5]=int8/token", 1, "layer 5 of q, expected 0 to 2");
  refused("cache_k[l3]=int8/token", 1, "layer 3 of cache_k, expected 0 to 2");
  refused("cache_v[l0,l31]=f32", 1, "layer 31 of cache_v, expected 0 to 2");  // it was meant to help
}

TEST(ResolvedPlan, RulesBesideCaches) {
  for (const char* plan :
       {"cache_k=int4/channel,cache_v=bf16,weights=int8/channel,linear_in=int8/token",
        "cache_k=f32,q=int8/token,k=int8/token", "cache_k=int2/block32.channel+min,cache_v=int2/group32+min"}) {
    EXPECT_EQ(Message(plan, Sites(2), Carrying::kSimulated), "accepted") << plan;
    EXPECT_FALSE(Simulated(plan).SpansRows()) << plan;  // pages are rounded when they are full
  }
  EXPECT_EQ(Message("cache_k=int4/channel,cache_v=bf16", Sites(2), Carrying::kExecuted), "accepted");
  for (const char* maps : {"attn_logits=int8/row", "probs=u8/row", "difference=int8/row"}) {
    EXPECT_THAT(Message(Formatted("cache_v=f32,{}", maps).c_str(), Sites(2), Carrying::kSimulated),
                HasSubstr("decoding shows no maps"));
  }
  EXPECT_THAT(Message("cache_k=int8/token,k=int8/tensor", Sites(2), Carrying::kSimulated),
              HasSubstr("got scales that span tokens"));
  ExpectRefused({"cache_k=int8/token,cache_v[l1]=int8/group48", "cache_v[l1]=int8/group48", "a scale per group48",
                 "token, channel, group32 or group64", "group32"},
                Sites(2), Carrying::kSimulated);
  ModelSites tower = Sites(1);
  tower.decodes = false;
  EXPECT_THAT(Message("cache_k=f32", tower, Carrying::kSimulated),
              HasSubstr("got cache_k, expected a site of this llama model, which has none"));
}

TEST(ResolvedPlan, RulesThatNothingCarriesOut) {
  for (const Refusal& r : {
           Refusal{"difference=int8/row", "difference=int8/row", "difference",
                   "a site of a llama model, whose heads have one map", "probs"},
           Refusal{"k=int8/head+smoothall+static", "k=int8/head+smoothall+static", "+smooth with +static",
                   "one of the two, as statistics are of the values themselves", "it without +static"},
           Refusal{"v=fp8e4m3/head+top449", "v=fp8e4m3/head+top449", "+top449 with fp8e4m3",
                   "at most 448, and a scale in f32", "it without +top"},
           Refusal{"k=fp8e4m3:floor/head+top2", "k=fp8e4m3:floor/head+top2", "+top2 with fp8e4m3:floor",
                   "at most 448, and a scale in f32", "it without +top"},
           Refusal{"k=int8/token+mse+top100", "k=int8/token+mse+top100", "+top with +mse",
                   "one of the two, as each says what becomes the largest code", "it without +mse"},
           Refusal{"q=int8/token+static", "q=int8/token+static", "+static with a scale per token",
                   "one per tensor, head or channel", "tensor+static"},
           Refusal{"k=int8/tensor+hadamard+keep4+static", "k=int8/tensor+hadamard+keep4+static",
                   "+static with +hadamard+keep4", "scales of what is rounded: statistics are of the values themselves",
                   "it without +static"},
           Refusal{"v=int8/channel+static+mse", "v=int8/channel+static+mse", "a clip with static scales per channel",
                   "their largest magnitudes", "it without +p and +mse"},
           Refusal{"q=int8/head+smooth8+static", "q=int8/head+smooth8+static", "+smooth with +static",
                   "one of the two, as statistics are of the values themselves", "it without +static"},
           Refusal{"head_out=int8/tensor+zero+static", "head_out=int8/tensor+zero+static",
                   "int8+zero with +static, +p or +top", "ends of the values themselves, or +mse",
                   "it without this option"},
           Refusal{"v=int4/head+min", "v=int4/head+min", "int4+min with a scale per head",
                   "one per token, channel, group<N> or block<N>.channel", "token"},
           Refusal{"q=f32,attn_logits=int8/tensor+p99.9", "attn_logits=int8/tensor+p99.9",
                   "a clip with a scale per tensor", "+static with it, or a scale per row or token", "+static"},
           Refusal{"layer_out=int8/tensor+static", "layer_out=int8/tensor+static", "+static without statistics",
                   "a statistics file of this model", "--stats FILE.h5"},
       })
    ExpectRefused(r, Sites(1), Carrying::kSimulated);
  ExpectRefused({"difference=u8/row+mse", "difference=u8/row+mse", "a clip with a zero point",
                 "no options, as both ends of a group have a code", "int8, int6 or int4"},
                Sites(2), Carrying::kSimulated);
}

TEST(ResolvedPlan, WhatSpansRows) {
  for (const char* plan : {"q=int4/token+smooth8", "head_out=int8/tensor+zero", "k=nvfp4", "v=nvfp4:t1"})
    EXPECT_TRUE(SpansRows(Plan::Parse(plan))) << plan;
  for (const char* plan : {"probs=u8/tensor", "probs=nvfp4/row", "k=nvfp4:t1", "attn_logits=nvfp4/row"}) {
    EXPECT_FALSE(SpansRows(Plan::Parse(plan))) << plan;
    EXPECT_FALSE(NeedsSurvey(Plan::Parse(plan).rules()[0])) << plan;
  }
  EXPECT_TRUE(NeedsSurvey(Plan::Parse("q=int8/head+zero+smooth8").rules()[0]));
}

TEST(ResolvedPlan, WeightsAsTheyAreStored) {
  ModelSites model = Sites(1);
  for (int layer = 0; layer < 3; ++layer) model.weights[{Site::kQProjW, layer}] = {.in = 64, .format = {}, .group = 0};
  EXPECT_THAT(
      Message("weights=int8/group48", model, Carrying::kSimulated),
      AllOf(StartsWith("plan rule 'weights=int8/group48': got group48 for rows of 64 weights of layer 0, q_proj.w"),
            EndsWith(
                "expected a divisor; try group32, or a rule after it for these weights alone: q_proj.w=int8/group32")));
  ExpectRefused({"linear_in=int8/token", "linear_in=int8/token", "layer 0, q_proj.w in floating point",
                 "weights in integers with it", "it with weights=int8/channel, or simulating it"},
                model, Carrying::kExecuted);
  EXPECT_EQ(Message("linear_in=int8/token", model, Carrying::kSimulated), "accepted");
  EXPECT_THAT(Message("mixer.scan.b=int8/token", model, Carrying::kSimulated),
              HasSubstr("got scan.b, expected a site"));
  model.weights[{Site::kQProjW, 0}] = {.in = 64, .format = Format::kInt6, .group = 64};
  ExpectRefused(
      {"weights=int4/channel", "weights=int4/channel", "layer 0, q_proj.w that is already int6 in groups of 64",
       "the format of this checkpoint's codes, or a checkpoint without codes", "a plan without it"},
      model, Carrying::kSimulated);
  EXPECT_EQ(Message("weights[l0]=int6/channel,q_proj.in[l0]=int8/token", model, Carrying::kExecuted), "accepted");
}

// Before the first forward pass, whether weights or their inputs are rotated.
TEST(ResolvedPlan, WidthsWithoutARotationAreNamed) {
  ModelSites model = Sites(1);
  model.weights[{Site::kDownProjW, 2}] = {.in = 37 * 512, .format = {}, .group = 0};
  for (const char* plan : {"linear_in=int4/token+hadamard", "weights=int4/channel+hadamard"})
    EXPECT_THAT(Message(plan, model, Carrying::kSimulated),
                AllOf(StartsWith(Formatted("plan rule '{}': layer 2, down_proj.w: hadamard: got 18944 channels", plan)),
                      HasSubstr("try runs of fewer channels in a plan, +hadamard16")));
  EXPECT_EQ(Message("linear_in=int4/token+hadamard512", model, Carrying::kSimulated), "accepted");
}

// Integers of rotated inputs are multiplied by those of weights that are rotated alike, of a plan or a checkpoint.
TEST(ResolvedPlan, ExecutedWeightsAndInputsAreRotatedAlike) {
  ModelSites model = Sites(1);
  model.weights[{Site::kQProjW, 0}] = {.in = 64, .format = {}, .group = 0};
  const std::string weights = "q_proj.w=int4/channel+hadamard16", of_weights = weights + ",q_proj.in[l0]=int8/token";
  EXPECT_EQ(Message((of_weights + "+hadamard16").c_str(), model, Carrying::kExecuted), "accepted");
  EXPECT_EQ(Message(weights.c_str(), model, Carrying::kExecuted), "accepted") << "weights alone";
  EXPECT_EQ(Message(of_weights.c_str(), model, Carrying::kSimulated), "accepted");
  const auto refused = [&](const std::string& plan, const char* rule, const char* got, const char* expected) {
    ExpectRefused(
        {plan.c_str(), rule, got, expected, "the same +hadamard for weights and their inputs, or simulating it"}, model,
        Carrying::kExecuted);
  };
  refused(of_weights, "q_proj.in[l0]=int8/token", "no rotation", "that of layer 0, q_proj.w, +hadamard16");
  refused(of_weights + "+hadamard", "q_proj.in[l0]=int8/token+hadamard", "+hadamard",
          "that of layer 0, q_proj.w, +hadamard16");
  model.weights[{Site::kQProjW, 0}] = {.in = 64, .format = Format::kInt4, .group = 64, .rotation = &PlanRotation(64)};
  EXPECT_EQ(Message("q_proj.in[l0]=int8/token+hadamard", model, Carrying::kExecuted), "accepted");
  refused("q_proj.in[l0]=int8/token", "q_proj.in[l0]=int8/token", "no rotation",
          "that of layer 0, q_proj.w, +hadamard");
  ExpectRefused({"weights=int4/channel+hadamard16,linear_in=int8/token", "linear_in=int8/token", "no rotation",
                 "that of 'weights=int4/channel+hadamard16'",
                 "the same +hadamard for weights and their inputs, or simulating it"},
                Sites(1), Carrying::kExecuted);
  ExpectRefused({"q_proj.w=int4/channel", "q_proj.w=int4/channel",
                 "layer 0, q_proj.w that is already int4 in groups of 64 with +hadamard",
                 "the format of this checkpoint's codes, or a checkpoint without codes", "a plan without it"},
                model, Carrying::kSimulated);
}

// 127 times the scale of one code; a clip of its own needs statistics.
TEST(ResolvedPlan, AnotherToolsStaticScalesOfInputsAreTaken) {
  ModelSites model = Sites(1);
  for (int layer = 0; layer < model.layers; ++layer)
    model.weights[{Site::kQProjW, layer}] = {
        .in = 64, .format = Format::kInt8, .group = 64, .scheme = "a tool's", .input_scale = 0.5f};
  const ResolvedPlan plan(Plan::Parse("q_proj.in=int8/tensor+static"), model, Carrying::kExecuted);
  EXPECT_EQ(plan.ClipAt({Site::kQProjIn, 1}), std::vector<float>{63.5f});
  for (const char* other : {"k_proj.in=int8/tensor+static", "q_proj.in=int8/tensor+static+p99"})
    EXPECT_THAT(Message(other, model, Carrying::kSimulated), HasSubstr("+static without statistics"));
}

// A last block may be short where nothing is executed; values that are no integers times a step are refused where
// inputs ask for a kernel, and dequantized where not.
TEST(ResolvedPlan, StoredWeightsThatAreNotIntegers) {
  ModelSites model = Sites(1);
  model.weights[{Site::kQProjW, 0}] = {.in = 43, .format = Format::kMxFp4, .group = 32};
  EXPECT_EQ(Message("weights=mxfp4,linear_in=int8/token", model, Carrying::kSimulated), "accepted");
  ExpectRefused({"linear_in=int8/token", "linear_in=int8/token",
                 "blocks of 32 for rows of 43 weights of layer 0, q_proj.w", "a divisor", kSimulate},
                model, Carrying::kExecuted);
  model.weights[{Site::kQProjW, 0}] = {.in = 64, .format = {}, .group = 0};
  for (const char* fits :
       {"weights=mxfp4,linear_in=int8/token", "weights=nvfp4,linear_in=int8/token", "weights=nf4/group32"})
    EXPECT_EQ(Message(fits, model, Carrying::kExecuted), "accepted") << fits;
  ExpectRefused({"weights=nf4/group32,linear_in=int8/token", "weights=nf4/group32", "layer 0, q_proj.w in nf4",
                 "values that are integers times a step, as integer kernels need", "simulating it, or mxfp4 or mxint8"},
                model, Carrying::kExecuted);
  model.weights[{Site::kQProjW, 0}].in = 48;
  ExpectRefused({"weights=mxfp4,linear_in=int8/token", "weights=mxfp4",
                 "blocks of 32 for rows of 48 weights of layer 0, q_proj.w", "a divisor",
                 "q_proj.w=nvfp4 after it, of blocks of 16, or simulating it"},
                model, Carrying::kExecuted);
  EXPECT_EQ(Message("weights=mxfp4,q_proj.w=nvfp4,linear_in=int8/token", model, Carrying::kExecuted), "accepted");
  model.weights[{Site::kQProjW, 0}].in = 43;
  ExpectRefused({"weights=nf4/group32", "weights=nf4/group32", "group32 for rows of 43 weights of layer 0, q_proj.w",
                 "a divisor", "channel, or a rule after it for these weights alone: q_proj.w=nf4/channel"},
                model, Carrying::kSimulated);
}

// What is suggested divides every row that the rule is for, and has kernels.
TEST(ResolvedPlan, AGroupThatWorksEverywhere) {
  ModelSites model = Sites(1);
  const auto put = [&](Site site, int64_t in) { model.weights[{site, 0}] = {.in = in, .format = {}, .group = 0}; };
  put(Site::kQProjW, 256), put(Site::kDownProjW, 688), put(Site::kUpProjW, 40);
  const auto refusal = [&](const char* plan, Carrying carrying) { return Message(plan, model, carrying); };
  EXPECT_THAT(
      refusal("weights=int4/group64,up_proj.w=f32", Carrying::kSimulated),
      EndsWith("layer 0, down_proj.w, expected a divisor; try group16, or a rule after it for these weights alone: "
               "down_proj.w=int4/group16"));
  EXPECT_THAT(
      refusal("weights=int4/group64", Carrying::kSimulated),
      EndsWith("layer 0, up_proj.w, expected a divisor; try channel, or a rule after it for these weights alone: "
               "up_proj.w=int4/channel"));
  const char* odd = "q_proj.w=int4/group64,down_proj.w=int4/group43,linear_in=int8/token,up_proj.in=f32";
  EXPECT_EQ(refusal(odd, Carrying::kSimulated), "accepted");
  EXPECT_EQ(
      refusal(odd, Carrying::kExecuted),
      "plan rule 'down_proj.w=int4/group43': got groups of 43 in layer 0, down_proj.w, expected multiples of 16 or "
      "one scale per channel; try group16, or a rule after it for these weights alone: down_proj.w=int4/group16");
  model.weights[{Site::kDownProjW, 0}] = {.in = 688, .format = Format::kInt4, .group = 43};
  EXPECT_THAT(refusal("down_proj.in=int8/token", Carrying::kExecuted),
              AllOf(StartsWith("plan rule 'down_proj.in=int8/token': got groups of 43"), EndsWith(kSimulate)));
}

TEST(ResolvedPlan, SitesWithoutAnIntegerKernel) {
  ExpectRefused(
      {"attn_out=int8/token", "attn_out=int8/token", "a site without an integer kernel",
       "weights, linear_in, lambda_proj.w, lambda_proj.in, lm_head.w, lm_head.in, q, k, v, attn_logits, probs or "
       "difference",
       kSimulate},
      Sites(1), Carrying::kExecuted);
  for (const char* rule : {"linear_in=int8/group32", "linear_in=int8/token+mse"}) {
    const std::string got =
        rule == std::string("linear_in=int8/group32") ? "a scale per group32" : "a scale per token+mse";
    const std::string plan = std::string("weights=int8/channel,") + rule;
    ExpectRefused({plan.c_str(), rule, got.c_str(), "a dynamic scale per token, or a static one per tensor",
                   "linear_in=int8/token, or simulating it"},
                  Sites(1), Carrying::kExecuted);
  }
  EXPECT_EQ(Message("weights=int8/channel,linear_in=int8/tensor+static", Sites(1), Carrying::kExecuted, Threes),
            "accepted");
}

TEST(ResolvedPlan, WeightsForAFile) {
  ModelSites model = Sites(1);
  for (const char* plan : {"", "weights=f32", "attn_logits=int8/row"})
    EXPECT_THAT(Message(plan, model, Carrying::kStored),
                EndsWith("got no rule for weights, expected one; try weights=int4/channel"));
  EXPECT_EQ(Message("weights=int8/channel+mse,lm_head.w=int8/channel", model, Carrying::kStored), "accepted");
  EXPECT_EQ(Message("int4", model, Carrying::kStored), "accepted");
  model.tied_head = true;
  ExpectRefused({"lm_head.w=int8/channel", "lm_head.w=int8/channel", "the embedding, which is this model's head",
                 "weights of its own", "the plan without the rule"},
                model, Carrying::kStored);
}

}  // namespace
}  // namespace tare::resolved_plan_test
