// SPDX-License-Identifier: Apache-2.0
// What each option does to a row, and that undoing it leaves no trace.
// The sink against attention with one more key, in double, in a real pass; and difficult rows.
#include "experiments/plan/simulated/simulated_quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/plan_run.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"

namespace tare::row_change_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<float> Row(const SiteBlock& block, int64_t r) { return {block.Row(r).begin(), block.Row(r).end()}; }

// Queries first_row, first_row + 1 of a causal block.
SiteBlock Logits(std::vector<float>& values, int64_t first_row, int64_t stride) {
  return {.site = Site::kAttnLogits,
          .first_row = first_row,
          .rows = 2,
          .first_columns = first_row + 1,
          .column_step = 1,
          .values = values.data(),
          .stride = stride};
}

// Rows of logits take two levels, as maps do: an f32 of their own.
TEST(SimulatedRows, NvFp4OfARow) {
  for (const Format format : {Format::kNvFp4, Format::kNvInt4}) {
    std::vector<float> values(2 * 40);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * (i < 40 ? 1.0f : 300.0f);
    std::vector<float> expected = values;
    for (size_t r = 0; r < 2; ++r) RoundInBlocksOfRow({expected.data() + 40 * r, 38 + r}, format);
    SimulatedPlan quantizer(Formatted("attn_logits={}/row", Name(format)),
                            {.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1});
    SiteBlock block = Logits(values, 37, 40);
    block.layer = 0, block.head = 0, block.map = 1;
    quantizer.Visit(block, 0);
    EXPECT_EQ(values, expected) << Name(format);
  }
}

TEST(RowChangeTest, NothingWithoutOptions) {
  std::vector<float> values(8, 1.0f);
  EXPECT_FALSE(RowChange({.sketch = true}, Logits(values, 0, 4)).Any());
}

TEST(RowChangeTest, MaxShiftPutsTheLargestAtZero) {
  std::vector<float> values = {3, -1, 9, 9, 2, 5, 4, 9};
  const SiteBlock block = Logits(values, 1, 4);
  RowChange change({.max_shift = true}, block);
  for (int64_t r = 0; r < 2; ++r) change.Make(r, block.Row(r));
  EXPECT_THAT(Row(block, 0), ElementsAre(0, -4));
  EXPECT_THAT(Row(block, 1), ElementsAre(-3, 0, -1));
  for (int64_t r = 0; r < 2; ++r) change.Undo(r, block.Row(r));
  EXPECT_THAT(values, ElementsAre(3, -1, 9, 9, 2, 5, 4, 9));  // what the mask hides too
}

TEST(RowChangeTest, KeptColumnsAreTheFirstKeysOfAnyWindow) {
  std::vector<float> values = {8, 1, 2, 3, 8, 1, 2, 3};
  SiteBlock block = Logits(values, 2, 4);
  RowChange change({.keep = 2}, block);
  change.Make(0, block.Row(0));
  EXPECT_THAT(Row(block, 0), ElementsAre(0, 0, 2));
  for (float& x : block.Row(0)) x *= 10;  // as rounding would change them
  change.Undo(0, block.Row(0));
  EXPECT_THAT(Row(block, 0), ElementsAre(8, 1, 20));
  block.window = 2;  // of row 1: keys 2 and 3
  RowChange windowed({.keep = 3}, block);
  windowed.Make(1, block.Row(1));
  EXPECT_THAT(Row(block, 1), ElementsAre(0, 3));
  windowed.Undo(1, block.Row(1));
  EXPECT_THAT(Row(block, 1), ElementsAre(2, 3));
}

TEST(RowChangeTest, KeptTokensOfKeysAndValues) {
  for (const Site site : {Site::kK, Site::kV}) {
    std::vector<float> values = {1, 2, 3, 4};
    const SiteBlock block{
        .site = site, .first_row = 3, .rows = 2, .first_columns = 2, .values = values.data(), .stride = 2};
    RowChange change({.keep = 4}, block);
    for (int64_t r = 0; r < 2; ++r) change.Make(r, block.Row(r));
    EXPECT_THAT(values, ElementsAre(0, 0, 3, 4));
    for (int64_t r = 0; r < 2; ++r) change.Undo(r, block.Row(r));
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  }
}

// An outlier is spread over all channels; products of queries and keys stay what they are.
TEST(RowChangeTest, HadamardSpreadsAndKeepsProducts) {
  std::vector<float> q = RandomNormal(32, 1), k = RandomNormal(32, 2);
  k[5] = 100;
  const std::vector<float> before = k;
  double product = 0, turned = 0;
  for (size_t i = 0; i < 32; ++i) product += double{q[i]} * k[i];
  const SiteBlock queries{.site = Site::kQ, .rows = 1, .first_columns = 32, .values = q.data(), .stride = 32},
      keys{.site = Site::kK, .rows = 1, .first_columns = 32, .values = k.data(), .stride = 32};
  RowChange of_q({.hadamard = RotatedRuns{}}, queries), of_k({.hadamard = RotatedRuns{}}, keys);
  of_q.Make(0, queries.Row(0));
  of_k.Make(0, keys.Row(0));
  for (size_t i = 0; i < 32; ++i) turned += double{q[i]} * k[i];
  EXPECT_NEAR(turned, product, 1e-4 * std::abs(product));
  for (const float x : k) EXPECT_LT(std::abs(x), 30);
  of_k.Undo(0, keys.Row(0));
  for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(k[i], before[i], 1e-4);
  const SiteBlock odd{.site = Site::kQ, .rows = 1, .first_columns = 3, .values = q.data(), .stride = 3};
  EXPECT_THAT(Call([&] { RowChange({.hadamard = RotatedRuns{}}, odd); }),
              ThrowsMessage<Error>(HasSubstr("hadamard: got 3 channels")));
}

ModelConfig OneLayer() { return {.family = "llama", .layers = 1, .heads = 1, .kv_heads = 1}; }

// Rows of four, of the only map.
void QuantizeLogits(const char* plan, std::vector<float>& values) {
  SimulatedPlan quantizer(plan, OneLayer());
  const SiteBlock block{.site = Site::kAttnLogits,
                        .layer = 0,
                        .head = 0,
                        .map = 1,
                        .rows = std::ssize(values) / 4,
                        .first_columns = 4,
                        .values = values.data(),
                        .stride = 4};
  quantizer.BeginBatch(1);
  if (quantizer.NeedsSurvey(Site::kAttnLogits, 0)) quantizer.Survey(block, 0);
  quantizer.Visit(block, 0);
}

// A sink of 100 at the first key: kept, it is exact and the others have a scale of their own, in a row and in a tensor.
TEST(RowChangeInPlans, KeptKeysAreExactAndOutOfTheScale) {
  for (const char* plan : {"attn_logits=int4/row+keep1", "attn_logits=int4/tensor+keep1"}) {
    std::vector<float> values = {100, 1, -7, 3.4f, 100, -7, 2.6f, 0};
    QuantizeLogits(plan, values);
    const float expected[] = {100, 1, -7, 3, 100, -7, 3, 0};
    for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << plan << " " << i;
  }
}

// -14 .. 0 in steps of 2: the row's largest becomes 0, whatever it was.
TEST(RowChangeInPlans, LogitsAreRoundedBelowTheRowsLargest) {
  for (const char* plan : {"attn_logits=int4/row+maxshift", "attn_logits=int4/tensor+maxshift"}) {
    std::vector<float> values = {1001, 1000.1f, 994, 987};
    QuantizeLogits(plan, values);
    const float expected[] = {1001, 1001, 993, 987};  // 0, 0, -4 (of -3.5, to even), -7 times 2
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << plan << " " << i;
  }
}

// 0.1 - 1000.3 + 1000.3 is not 0.1 in f32.
TEST(RowChangeInPlans, KeptLogitsAreExactBesideAShift) {
  for (const char* plan : {"attn_logits=int4/row+maxshift+keep2", "attn_logits=int4/tensor+maxshift+keep2"}) {
    std::vector<float> values = {0.1f, 1000.3f, 994.3f, 986.3f};
    QuantizeLogits(plan, values);
    EXPECT_EQ(values[0], 0.1f) << plan;
    EXPECT_EQ(values[1], 1000.3f) << plan;
    EXPECT_NEAR(values[2], 994.3f, 1e-3f) << plan;
    EXPECT_NEAR(values[3], 986.3f, 1e-3f) << plan;
  }
}

TEST(RowChangeInPlans, RotatedValuesAreRoundedAndTurnedBack) {
  std::vector<float> values(2 * 8);
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (float& x : values) x = normal(random);
  std::vector<float> expected = values;
  const Hadamard rotation(8, 1);
  for (int r = 0; r < 2; ++r) {
    float* const row = expected.data() + 8 * r;
    rotation.Rotate(row, row);
    float absmax = 0;
    for (int i = 0; i < 8; ++i) absmax = std::max(absmax, std::abs(row[i]));
    const Scale scale = ScaleFor(absmax, Format::kInt4);
    for (int i = 0; i < 8; ++i) row[i] = std::nearbyint(row[i] * scale.inv) * scale.scale;
    rotation.RotateBack(row, row);
  }
  SimulatedPlan quantizer("k=int4/token+hadamard", OneLayer());
  quantizer.Visit(
      {.site = Site::kK, .layer = 0, .head = 0, .rows = 2, .first_columns = 8, .values = values.data(), .stride = 8},
      0);
  EXPECT_EQ(values, expected);
}

}  // namespace
}  // namespace tare::row_change_test

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

// Large values of one key: its row weighs all or nothing. Beyond f32's range of logits (kMostLogit) rows are NaN.
TEST(ZeroSinkTest, HugeLogits) {
  Attention attention(1);
  std::ranges::fill(attention.q, 1.0f);
  std::ranges::fill(attention.k, 1e6f);
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_NEAR(attention.out[0], attention.v[0], 1e-6);  // the only key of the first row
  std::ranges::fill(attention.k, -1e6f);
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_THAT(attention.out, Each(0.0f));
  std::ranges::fill(attention.k, 1e37f);
  attention.Run(Plan::Parse("attn_logits=f32+sink"));
  EXPECT_TRUE(std::isnan(attention.out[0]));
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
