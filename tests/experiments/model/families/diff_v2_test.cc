// SPDX-License-Identifier: Apache-2.0
// lambda per token as a site and a linear layer: in statistics, plans and quantized files; parity_test.cc compares the
// forward pass with golden data.
#include "experiments/model/config/read_config.h"
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare::diff_v2_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const char* const kName = "diff-v2-gqa";

TEST(DiffV2Test, TheMapsOfAHeadShareAKey) {
  const OutputHead head = HeadTable(LoadConfig(GoldenFolder(kName))).at(3);
  EXPECT_EQ(head.q1, 6);
  EXPECT_EQ(head.q2, 7);
  EXPECT_EQ(head.k1, 1);
  EXPECT_EQ(head.k2, 1);
  EXPECT_EQ(head.VSlices(), 1);
}

TEST(DiffV2Test, LambdaIsASiteAndALinearLayer) {
  const Model model(GoldenFolder(kName));
  const ModelSites sites = ModelSitesOf(model);
  EXPECT_EQ(sites.Heads(Site::kLambda), 4);
  EXPECT_EQ(sites.weights.at({Site::kLambdaProjW, 1}).in, 40);
  EXPECT_TRUE(model.layers()[0].lambda.empty());  // the weights alone do not tell it
  const ModelSites others = ModelSitesOf(Model(GoldenFolder("diffllama-mha")));
  for (const Site site : {Site::kLambda, Site::kLambdaProjW, Site::kLambdaProjIn}) {
    EXPECT_TRUE(sites.Has(site));
    EXPECT_FALSE(others.Has(site));
    EXPECT_TRUE(others.Keys(site).empty());
  }
}

// Each token has its own lambda: a batch's second sequence does not take the first one's, on the integer kernels too.
TEST(DiffV2Test, ExecutedAttentionTakesEachTokensLambda) {
  Model model(GoldenFolder(kName));
  const auto rows = GoldenRows(kName);
  TokenBatch both, second;
  both.Add(0, rows[0]), both.Add(1, rows[1]), second.Add(0, rows[1]);
  PlanRun run(Plan::Parse("q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel"), Carrying::kExecuted,
              ModelSitesOf(model));
  run.Begin(model);
  const std::vector<float> all = LogitsOf(model, both), alone = LogitsOf(model, second);
  EXPECT_TRUE(AllNear(std::span(all).last(alone.size()), alone, 1e-5));
}

TEST(DiffV2Test, PlansSimulateAndExecuteIt) {
  Model model(GoldenFolder(kName));
  const TokenBatch batch = GoldenBatch(kName);
  const std::vector<float> exact = LogitsOf(model, batch);
  const auto logits = [&](const char* plan, Carrying carrying) {
    PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
    return LogitsOf(model, batch, run.Begin(model));
  };
  const std::vector<float> coarse = logits("lambda=u4/tensor", Carrying::kSimulated);
  EXPECT_NE(coarse, exact);
  EXPECT_TRUE(AllNear(coarse, exact, 0.2));
  EXPECT_NE(logits("lambda[h1]=u4/head", Carrying::kSimulated), exact);
  EXPECT_TRUE(
      AllNear(logits("weights=int8/channel,linear_in=int8/token,lambda_proj.w=int8/channel,lambda_proj.in=int8/token",
                     Carrying::kExecuted),
              exact, 0.1));
  EXPECT_THAT(Call([&] { logits("lambda=u8/head", Carrying::kExecuted); }),
              ThrowsMessage<Error>(HasSubstr("got a site without an integer kernel")));
  Model other(GoldenFolder("diffllama-mha"));
  EXPECT_THAT(Call([&] { PlanRun(Plan::Parse("lambda=u8/head"), Carrying::kSimulated, ModelSitesOf(other)); }),
              ThrowsMessage<Error>(HasSubstr("got lambda, expected a site of this diffllama model, which has none")));
}

// lambda of every token and head, by rows of the batch.
class LambdaWatch : public SiteVisitor {
 public:
  bool Wants(Site site, std::optional<int> layer) const override { return site == Site::kLambda && layer == 1; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    for (int64_t r = 0; r < block.rows; ++r) seen[{block.batch_row + r, *block.head}] = block.Row(r)[0];
  }
  std::map<std::pair<int64_t, int>, double> seen;

 private:
  std::mutex mutex_;
};

// One scale for a token's heads, those of a rule: the largest is a code of 15, the others the nearest multiples of a
// fifteenth of it. A token's scale depends on no other token, so texts may share their beginning.
TEST(DiffV2Test, OneScaleForATokensHeads) {
  Model model(GoldenFolder(kName));
  TokenBatch batch;
  batch.Add(0, GoldenRows(kName)[0]);
  batch.Add(1, std::vector<int32_t>{3, 8, 5});
  for (const std::vector<int32_t>& branch : {std::vector{7, 9}, std::vector{2, 11, 4}}) batch.AddBranch(branch);
  PlanRun run(Plan::Parse("lambda=u4/heads,lambda[h1,h3]=u4/heads"), Carrying::kSimulated, ModelSitesOf(model));
  EXPECT_FALSE(run.LooksAhead());
  LambdaWatch before, after;
  std::vector<SiteVisitor*> visitors{&before};
  const SiteVisitors quantizers = run.Begin(model);
  visitors.insert(visitors.end(), quantizers.begin(), quantizers.end());
  visitors.push_back(&after);
  model.Forward(batch, visitors);
  ASSERT_EQ(std::ssize(before.seen), batch.Rows() * 4);
  int changed = 0;
  for (const auto& [place, x] : before.seen) {
    const auto [token, head] = place;
    const double scale = std::max(before.seen.at({token, head % 2}), before.seen.at({token, head % 2 + 2})) / 15;
    const double y = after.seen.at(place), code = y / scale;
    EXPECT_NEAR(code, std::round(code), 1e-5) << token << " " << head;  // f32's rounding, 15 times
    EXPECT_LE(std::fabs(y - x), scale / 2 * (1 + 1e-5));
    changed += std::fabs(y - x) > 1e-3 * scale;
  }
  EXPECT_GT(changed, std::ssize(before.seen) / 4);  // at most one of two heads has the largest
  const auto refused = [&](const char* plan) {
    return Call([&, plan] { PlanRun(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model)); });
  };
  EXPECT_THAT(refused("lambda=u4/heads+mse"),
              ThrowsMessage<Error>(HasSubstr("got a clip with one scale for a token's heads, expected their largest "
                                             "magnitude; try it without +p and +mse")));
  EXPECT_THAT(refused("lambda=u4/heads+static"), ThrowsMessage<Error>(HasSubstr("got +static with a scale per heads")));
  EXPECT_THAT(refused("head_out=int8/heads"), ThrowsMessage<Error>(HasSubstr("heads")));
}

TEST(DiffV2Test, QuantizedByEveryMethod) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 3, 20);
  const TokenBatch batch = GoldenBatch(kName);
  Model plain(GoldenFolder(kName));
  const std::vector<float> exact = LogitsOf(plain, batch);
  for (const char* method : {"rtn", "gptq", "gptaq+quantease", "smoothquant:0.5+rtn", "hadamard+rtn"}) {
    const bool looks = !std::string(method).ends_with("rtn") || std::string(method).starts_with("smooth");
    Quantize({.model = GoldenFolder(kName),
              .plan = Plan::Parse("weights=int8/channel,lambda_proj.w=int8/channel"),
              .out = folder / "q.h5",
              .method = ParseMethod(method),
              .calibration = looks ? folder / "ids.safetensors" : std::filesystem::path()},
             {});
    Model model(folder / "q.h5");
    EXPECT_NE(model.files().FindQuantized("model.layers.1.self_attn.lambda_proj.weight"), nullptr) << method;
    EXPECT_TRUE(AllNear(LogitsOf(model, batch), exact, 0.1)) << method;
  }
}

TEST(DiffV2Test, MapsThatDoNotShareKeysAreRefused) {
  nlohmann::json json = EditedCheckpoint(GoldenFolder(kName)).config;
  json["num_key_value_heads"] = 8;
  EXPECT_THAT(Call([&] { ParseConfig(json.dump(), "c.json"); }),
              ThrowsMessage<Error>(HasSubstr("c.json: num_attention_heads: got 8, expected a multiple of twice "
                                             "num_key_value_heads 8")));
}

}  // namespace
}  // namespace tare::diff_v2_test
