// SPDX-License-Identifier: Apache-2.0
// The differential families; parity_test.cc compares their forward passes with golden data.
//   V1: shared parts; the record of diff_v1, its options and refusals; lambda of diffllama against its formula in
//       double, and which of its heads belong together
//   V2: lambda per token as a site and a linear layer, in statistics, plans and quantized files
#include "experiments/model/families/llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/logits.h"
#include "tests/support/site_recorder.h"

namespace tare::differential_test {
namespace {

// arXiv 2410.05258, section 2.1: 0.2 in the first layer, towards 0.8.
TEST(DifferentialTest, LambdaInitOfALayer) {
  EXPECT_FLOAT_EQ(LambdaInit(0), 0.2f);
  EXPECT_FLOAT_EQ(LambdaInit(1), 0.35550907f);
  EXPECT_FLOAT_EQ(LambdaInit(2), 0.47071302f);
  EXPECT_FLOAT_EQ(LambdaInit(27), 0.79981794f);
}

// Vectors whose products are known; two exponentials in f32.
TEST(DifferentialTest, LambdaFollowsFromItsVectors) {
  LayerWeights w;
  w.vectors[kLambdaNames.q1] = {1, 2}, w.vectors[kLambdaNames.k1] = {0.5f, -0.5f};
  w.vectors[kLambdaNames.q2] = {1, 0}, w.vectors[kLambdaNames.k2] = {-1, 7};
  SetLambda(w, 0.25f);
  EXPECT_FLOAT_EQ(w.lambda.at(0), static_cast<float>(std::exp(-0.5) - std::exp(-1.0) + 0.25));
  EXPECT_EQ(w.lambda_init, 0.25f);
}

}  // namespace
}  // namespace tare::differential_test

namespace tare::diff_v1_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

nlohmann::json Config() { return EditedCheckpoint(GoldenFolder("diff-v1-gqa")).config; }
ModelConfig With(const char* key, const nlohmann::json& value) {
  nlohmann::json json = Config();
  json[key] = value;
  return ParseConfig(json.dump(), "c.json");
}

// 8 maps over 4 key heads: head 3 has the maps 6 and 7, and the second group's keys 2 and 3 and both of its values.
TEST(DiffV1Test, NeighboursAreTheMapsOfAHead) {
  const OutputHead head = HeadTable(ParseConfig(Config().dump(), "c")).at(3);
  EXPECT_EQ(head.q1, 6);
  EXPECT_EQ(head.q2, 7);
  EXPECT_EQ(head.k1, 2);
  EXPECT_EQ(head.k2, 3);
  EXPECT_EQ(head.v, (std::array{2, 3}));
  EXPECT_EQ(HeadTable(With("head_pairing", "halves")).at(3).q2, 7);
  EXPECT_EQ(HeadTable(With("head_pairing", "halves")).at(3).q1, 3);
}

TEST(DiffV1Test, ReadsItsOptions) {
  const ModelConfig plain = ParseConfig(Config().dump(), "c");
  EXPECT_EQ(plain.rotary.layout, RotaryConfig::Layout::kInterleaved);
  EXPECT_EQ(With("rotary_layout", "half-split").rotary.layout, RotaryConfig::Layout::kHalfSplit);
  EXPECT_EQ(plain.head_norm_eps, 1e-5f);
  EXPECT_FALSE(plain.lambda_init.has_value());
  EXPECT_EQ(With("lambda_init", 0.8).lambda_init, 0.8f);
}

TEST(DiffV1Test, OneLambdaInitForAllLayers) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diff-v1-mha"));
  checkpoint.config["lambda_init"] = 0.8;
  checkpoint.Write(folder / "m");
  const Model model(folder / "m"), by_depth(GoldenFolder("diff-v1-mha"));
  for (int layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(model.layers()[layer].lambda_init, 0.8f);
    EXPECT_NEAR(model.layers()[layer].lambda[0] - by_depth.layers()[layer].lambda[0], 0.8f - LambdaInit(layer), 1e-6);
  }
}

// A checkpoint without the weight says so, or the tensor is missed.
TEST(DiffV1Test, AHeadNormWithoutWeight) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diff-v1-mha"));
  std::erase_if(checkpoint.tensors, [](const auto& tensor) { return tensor.first.contains("subln"); });
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("'model.layers.0.self_attn.subln.weight': missing; expected shape [16]")));
  checkpoint.config["head_norm_weight"] = false;
  checkpoint.Write(folder / "n");
  EXPECT_EQ(Model(folder / "n").layers()[1].vectors.count(kHeadNorm), 0u);
}

TEST(DiffV1Test, ImpossibleValuesAreRefusedByKey) {
  const auto refuses = [](const char* key, const nlohmann::json& value, const char* why) {
    EXPECT_THAT(Call([&] { With(key, value); }), ThrowsMessage<Error>(HasSubstr(why))) << key;
  };
  refuses("rotary_layout", "spiral", "c.json: rotary_layout: got 'spiral', expected half-split or interleaved");
  refuses("head_pairing", "thirds", "c.json: head_pairing: got 'thirds', expected adjacent or halves");
  refuses("num_attention_heads", 7, "c.json: num_attention_heads: got 7");
  refuses("num_key_value_heads", 1, "c.json: num_key_value_heads: got 1, expected an even number");
  refuses("lambda_init", -1, "c.json: lambda_init: got -1, expected a positive number");
}

// guygrigsby/diff-mlx, its names and its optimizer's, in small: the shipped files with the sizes of the golden models.
TEST(DiffV1Test, TheShippedNamesOfDiffMlxReadIt) {
  for (const char* kind : {"diff", "vanilla"}) {
    const std::string golden = std::string("diff-mlx/") + kind;
    EditedCheckpoint model(GoldenFolder(golden));
    model.tensors["opt.step"] = {DType::kF32, {1}, std::vector<std::byte>(4)};
    const TemporaryFolder folder;
    nlohmann::json names =
        ReadJson(std::string(TARE_SOURCE_DIR "/docs/examples/diff-mlx/") + kind + "/tensor-names.json");
    EXPECT_EQ(names["config"]["hidden_size"], 768);
    names["config"].update({{"hidden_size", 24},
                            {"intermediate_size", 40},
                            {"num_hidden_layers", 2},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 4},
                            {"head_dim", 6},
                            {"vocab_size", 97},
                            {"max_position_embeddings", 64}});
    model.Write(folder.path());
    PutFile(folder / TensorNamesFile::kName, names.dump());
    Model read(folder.path());
    const Safetensors expected(GoldenFolder(golden) / "expected.safetensors");
    EXPECT_TRUE(AllNear(LogitsOf(read, GoldenBatch(golden)), ValuesOf<float>(expected, "logits"), 2e-5)) << kind;
  }
}

}  // namespace
}  // namespace tare::diff_v1_test

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

namespace tare::diffllama_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sums of 16 products and two exponentials in f32: a few dozen units of values below 4.
TEST(DiffLlamaTest, LambdaIsTheDifferenceOfExponentialsPlusLambdaInit) {
  for (const char* name : {"diffllama-mha", "diffllama-gqa"}) {
    const EditedCheckpoint source(GoldenFolder(name));
    const Model model(GoldenFolder(name));
    for (int layer = 0; layer < model.config().layers; ++layer) {
      const auto dot = [&](const char* a, const char* b) {
        double sum = 0;
        for (size_t i = 0; i < 16; ++i) {
          sum += double{source.tensors.at(Formatted("model.layers.{}.self_attn.lambda_{}", layer, a)).Value(i)} *
                 source.tensors.at(Formatted("model.layers.{}.self_attn.lambda_{}", layer, b)).Value(i);
        }
        return sum;
      };
      const double start = 0.8 - 0.6 * std::exp(-0.3 * layer);
      const double expected = std::exp(dot("q1", "k1")) - std::exp(dot("q2", "k2")) + start;
      EXPECT_NEAR(model.layers()[layer].lambda.at(0), expected, 64 * 0x1p-24 * 4) << name << " layer " << layer;
      EXPECT_FLOAT_EQ(model.layers()[layer].lambda_init.value(), static_cast<float>(start));
      EXPECT_GT(std::abs(expected - start), 1e-3);  // or the four vectors would not matter
    }
  }
}

// 8 query heads over 4 key/value heads: head j has the maps j and j + 4, and V_j, V_{j+4} of the repeated values side
// by side.
TEST(DiffLlamaTest, AHeadHasTwoMapsAndTwoSlicesOfV) {
  const Model model(GoldenFolder("diffllama-gqa"));
  const std::vector<OutputHead>& heads = model.layers()[0].heads;
  ASSERT_EQ(heads.size(), 4u);
  for (int j = 0; j < 4; ++j) {
    EXPECT_EQ(heads[j].q1, j);
    EXPECT_EQ(heads[j].q2, j + 4);
    EXPECT_EQ(heads[j].k1, j / 2);
    EXPECT_EQ(heads[j].k2, j / 2 + 2);
    EXPECT_EQ(heads[j].VSlices(), 2);
  }
}

TEST(DiffLlamaTest, LambdaVectorsAreAsWideAsAHead) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diffllama-mha"));
  EditedCheckpoint::Tensor& vector = checkpoint.tensors.at("model.layers.2.self_attn.lambda_k2");
  vector.shape = {8};
  vector.bytes.resize(32);
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("model.layers.2.self_attn.lambda_k2': got shape [8], expected [16]")));
}

}  // namespace
}  // namespace tare::diffllama_test
