// SPDX-License-Identifier: Apache-2.0
// The sink against attention with one more key, in double, in a real pass; and difficult rows.
#include "experiments/plan/simulated/zero_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/plan_run.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"

namespace tare::zero_sink_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kTokens = 70, kWidth = 8;  // more than one block of rows
constexpr float kLambda = 0.7f;

struct Attention {
  explicit Attention(int maps)
      : heads{{.q1 = 0, .k1 = 0, .q2 = maps == 2 ? 1 : kNoMap, .k2 = maps == 2 ? 1 : kNoMap, .v = {0, kNoMap}}},
        q(RandomNormal(kTokens * 2 * kWidth, 1)),
        k(RandomNormal(kTokens * 2 * kWidth, 2)),
        v(RandomNormal(kTokens * kWidth, 3)),
        out(kTokens * kWidth) {}

  void Run(const Plan& plan) {
    ZeroSink sink(plan);
    sink.BeginBatch(1);
    SiteVisitor* const visitors[] = {&sink};
    const AttentionSequence sequences[] = {{.prefix = kTokens, .branches = {}}};
    FloatAttention({.problem = {.q = DenseHeads<const float>(q.data(), kTokens, 2, kWidth),
                                .k = DenseHeads<const float>(k.data(), kTokens, 2, kWidth),
                                .v = DenseHeads<const float>(v.data(), kTokens, 1, kWidth),
                                .heads = heads,
                                .lambda = {.data = &kLambda},
                                .scale = 1,
                                .out = DenseHeads(out.data(), kTokens, 1, kWidth)},
                    .sequences = sequences,
                    .visitors = visitors,
                    .layer = 0});
  }

  // A map of token t, with `one` more in the sum.
  std::vector<double> Map(int map, int t, double one) const {
    std::vector<double> p;
    double sum = one;
    for (int s = 0; s <= t; ++s) {
      double x = 0;
      for (int i = 0; i < kWidth; ++i) x += double{q[(t * 2 + map) * kWidth + i]} * k[(s * 2 + map) * kWidth + i];
      sum += p.emplace_back(std::exp(x));
    }
    for (double& x : p) x /= sum;
    return p;
  }

  // The largest distance of what came out from the maps with these sinks.
  double Distance(double one, double other) const {
    double worst = 0;
    for (int t = 0; t < kTokens; ++t) {
      std::vector<double> p = Map(0, t, one);
      if (heads[0].Differential()) {
        const std::vector<double> second = Map(1, t, other);
        for (size_t s = 0; s < p.size(); ++s) p[s] -= kLambda * second[s];
      }
      for (int i = 0; i < kWidth; ++i) {
        double y = 0;
        for (int s = 0; s <= t; ++s) y += p[static_cast<size_t>(s)] * v[s * kWidth + i];
        worst = std::max(worst, std::abs(y - out[t * kWidth + i]));
      }
    }
    return worst;
  }

  std::vector<OutputHead> heads;
  std::vector<float> q, k, v, out;
};

TEST(ZeroSinkTest, OneMoreInEverySum) {
  Attention standard(1), differential(2);
  standard.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_LT(standard.Distance(1, 1), 2e-5);
  EXPECT_GT(standard.Distance(0, 0), 0.1);
  differential.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_LT(differential.Distance(1, 1), 2e-5);
  differential.Run(Plan::Parse("attn_logits[m2]=f32+sink"));
  EXPECT_LT(differential.Distance(0, 1), 2e-5);
  differential.Run(Plan::Parse("attn_logits=f32+sink,attn_logits[l0,m1]=f32"));
  EXPECT_LT(differential.Distance(0, 1), 2e-5);
  differential.Run(Plan::Parse("attn_logits[l1]=f32+sink"));
  EXPECT_LT(differential.Distance(0, 0), 2e-5);
}

// Large values of one key: its row weighs all or nothing, and no row is less than finite.
TEST(ZeroSinkTest, HugeLogits) {
  Attention attention(1);
  std::ranges::fill(attention.q, 1.0f);
  std::ranges::fill(attention.k, 1e37f);
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_NEAR(attention.out[0], attention.v[0], 1e-6);  // the only key of the first row
  std::ranges::fill(attention.k, -1e37f);
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_THAT(attention.out, Each(0.0f));
}

TEST(ZeroSinkTest, NaNStaysInItsRows) {
  Attention attention(1);
  attention.q[5 * 2 * kWidth] = std::numeric_limits<float>::quiet_NaN();
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  for (int t = 0; t < kTokens; ++t) EXPECT_EQ(std::isnan(attention.out[t * kWidth]), t == 5) << t;
}

// A row of no key, and one of one, by hand.
TEST(ZeroSinkTest, RowsOfNoKeyAndOfOne) {
  const Plan plan = Plan::Parse("attn_logits=f32+sink");
  ZeroSink sink(plan);
  sink.BeginBatch(1);
  std::vector<float> values = {7, 7, std::log(3.0f), 7};
  SiteBlock block{.site = Site::kAttnLogits,
                  .layer = 0,
                  .head = 0,
                  .map = 1,
                  .rows = 2,
                  .first_columns = 0,
                  .column_step = 1,
                  .values = values.data(),
                  .stride = 2};
  sink.Visit(block, 0);
  block.site = Site::kProbs;
  values = {7, 7, 1, 7};
  sink.Visit(block, 0);
  EXPECT_THAT(values, ElementsAre(7, 7, testing::FloatEq(0.75f), 7));
}

// What makes a key whose logit is 0 the same as one more in the sum: 0 stays 0 beside whatever it is rounded with, and
// widens no scale.
TEST(ZeroSinkTest, AZeroAmongTheLogitsChangesNoCode) {
  for (const char* plan : {"attn_logits=int8/row", "attn_logits=int4/row", "attn_logits=int4/tensor",
                           "attn_logits=int4/row+mse", "attn_logits=mxfp4", "attn_logits=nf4/row"}) {
    std::vector<float> with = RandomNormal(20, 4), without = with;
    with.back() = 0;
    for (auto& [values, columns] : {std::pair{&with, 20}, {&without, 19}}) {
      SimulatedPlan quantizer(plan, {.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1});
      const SiteBlock block{.site = Site::kAttnLogits,
                            .layer = 0,
                            .head = 0,
                            .map = 1,
                            .rows = 1,
                            .first_columns = columns,
                            .values = values->data(),
                            .stride = 20};
      quantizer.BeginBatch(1);
      if (quantizer.NeedsSurvey(Site::kAttnLogits, 0)) quantizer.Survey(block, 0);
      quantizer.Visit(block, 0);
    }
    EXPECT_EQ(with.back(), 0) << plan;
    with.back() = without.back();
    EXPECT_EQ(with, without) << plan;
  }
}

// In a whole model: after the quantizer, beside rules of maps, and nothing of it left for the next run.
TEST(ZeroSinkTest, InPlans) {
  for (const char* name : {"llama-mha", "diffllama-mha"}) {
    Model model(GoldenFolder(name));
    const TokenBatch batch = GoldenBatch(name);
    const auto under = [&](const char* plan) {
      PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
      const SiteVisitors visitors = run.Begin(model);
      return LogitsOf(model, batch, visitors);
    };
    const std::vector<float> f32 = under(""), sink = under("attn_logits=f32+sink");
    EXPECT_NE(sink, f32) << name;
    EXPECT_NE(under("attn_logits=int8/row+sink"), sink) << name;
    EXPECT_NE(under("attn_logits=f32+sink,probs=u8/row"), sink) << name;
    EXPECT_EQ(under(""), f32) << name;
    for (const char* plan : {"attn_logits=f32+sink",
                             "q=int8/token,k=int8/token,probs=u8/block64,v=int8/channel,"
                             "attn_logits=int8/row+sink"}) {
      EXPECT_THAT(Call([&] { PlanRun(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(model)); }),
                  ThrowsMessage<Error>(HasSubstr("got +sink, expected no sink, which integer kernels do not support")));
    }
    EXPECT_THAT(Call([&] {
                  PlanRun(Plan::Parse("attn_logits=f32+sink"), Carrying::kSimulated, ModelSitesOf(model), {},
                          CachePlan{});
                }),
                ThrowsMessage<Error>(HasSubstr("got a rule for attn_logits")));
  }
}

}  // namespace
}  // namespace tare::zero_sink_test
