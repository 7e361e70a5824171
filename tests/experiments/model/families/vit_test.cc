// SPDX-License-Identifier: Apache-2.0
// timm's vision transformers against timm: every golden site and the logits within 2e-5 of the largest magnitude
// (parity_test.cc), pooled states, plans; config.json of timm and what it says of unknown models; matrices whose parts
// are rows or columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/model/config/family.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/site_recorder.h"

namespace tare::vit_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Json = nlohmann::json;

constexpr double kTolerance = 2e-5;

struct VitPass {
  explicit VitPass(const std::string& name)
      : expected(GoldenFolder(name) / "expected.safetensors"), model(GoldenFolder(name)) {
    const TokenInput input = LoadModelInput(GoldenFolder(name) / "expected.safetensors", model);
    for (size_t b = 0; b < input.sequences.size(); ++b) {
      rows.push_back(batch.Add(static_cast<int64_t>(b), input.sequences[b]) + std::ssize(input.sequences[b]) - 1);
    }
  }
  std::vector<float> Logits(SiteVisitors visitors) {
    model.Forward(batch, visitors);
    std::vector<float> logits(rows.size() * static_cast<size_t>(model.config().Outputs()));
    model.VocabularyLogits(rows, [&](size_t i, const float* row, int) {
      std::copy_n(row, model.config().Outputs(), logits.begin() + static_cast<int64_t>(i) * model.config().Outputs());
    });
    return logits;
  }
  Safetensors expected;
  Model model;
  TokenBatch batch;
  std::vector<int64_t> rows;
};

// Blocks by the golden file's names, [B, heads, T, columns].
class GoldenRecorder : public SiteVisitor {
 public:
  explicit GoldenRecorder(const VitPass& pass) : T_(pass.model.config().max_positions), config_(pass.model.config()) {}
  bool Wants(Site, std::optional<int>) const override { return true; }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    std::vector<float>& all = values[std::string(Name(b.site)) + (b.layer ? Formatted(".{}", *b.layer) : "")];
    const int64_t heads = b.head ? HeadsOf(b.site, config_) : 1, columns = b.Row(0).size();
    all.resize(2 * heads * T_ * columns);
    for (int64_t r = 0; r < b.rows; ++r)
      std::ranges::copy(b.Row(r),
                        all.begin() + ((b.sequence * heads + b.head.value_or(0)) * T_ + b.first_row + r) * columns);
  }
  std::map<std::string, std::vector<float>> values;

 private:
  std::mutex mutex_;
  const int64_t T_;
  const ModelConfig& config_;
};

class VitParityTest : public testing::TestWithParam<const char*> {};

TEST_P(VitParityTest, EverySiteAndTheLogits) {
  VitPass pass(GetParam());
  GoldenRecorder recorder(pass);
  SiteVisitor* const visitors[] = {&recorder};
  EXPECT_TRUE(AllNear(pass.Logits(visitors), ValuesOf<float>(pass.expected, "logits"), kTolerance));
  int compared = 0;
  for (const auto& [name, values] : recorder.values) {
    if (pass.expected.Find(name) == nullptr) continue;
    EXPECT_TRUE(AllNear(values, ValuesOf<float>(pass.expected, name), kTolerance)) << name;
    ++compared;
  }
  const ModelConfig& c = pass.model.config();
  const bool differential = Maps(c) == 2, parallel = FamilyOf(c).name.contains("parallel");
  EXPECT_EQ(compared, 1 + c.layers * (2 + (differential ? 2 : 0) + (parallel ? 0 : 1)));
  for (int i = 0; differential && i < c.layers; ++i)
    EXPECT_TRUE(
        AllNear(pass.model.layers()[i].lambda, ValuesOf<float>(pass.expected, Formatted("lambda.{}", i)), kTolerance));
}

INSTANTIATE_TEST_SUITE_P(Golden, VitParityTest,
                         testing::Values("vit-wee", "vit-reg4-odd", "vit-dwee", "vit-pwee", "vit-dpwee"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// One state for an image, at the place of its last patch, and no other row of it.
TEST(VitTest, TheFinalNormShowsOnePooledStateForAnImage) {
  VitPass pass("vit-wee");
  Recorder recorder;
  SiteVisitor* const visitors[] = {&recorder};
  pass.Logits(visitors);
  const auto& rows = recorder.sites.at({Site::kLmHeadIn}).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows.contains({1, pass.model.config().max_positions - 1}));
  // timm's pooled is the mean before the norm, or after it: one of them.
  std::vector<float> states;
  for (const auto& [place, row] : rows) states.insert(states.end(), row.begin(), row.end());
  EXPECT_TRUE(AllNear(states, ValuesOf<float>(pass.expected, "pooled"), kTolerance));
}

TEST(VitTest, PlansChangeEverySite) {
  for (const char* name : {"vit-dwee", "vit-dpwee", "vit-pwee"}) {
    VitPass pass(name);
    const std::vector<float> plain = pass.Logits({});
    const ModelSites sites = ModelSitesOf(pass.model);
    for (const Site site : {Site::kQProjIn, Site::kUpProjIn, Site::kDownProjIn, Site::kQ, Site::kLmHeadIn,
                            Site::kOProjW, Site::kUpProjW, Site::kDownProjW, Site::kLmHeadW}) {
      PlanRun run(Plan::Parse(Formatted("{}=int4/{}", Name(site), Name(site).ends_with("w") ? "channel" : "token")),
                  Carrying::kSimulated, sites);
      EXPECT_NE(pass.Logits(run.Begin(pass.model)), plain) << name << " " << Name(site);
    }
    EXPECT_FALSE(sites.Has(Site::kGateProjW));
  }
}

// As simulated: the integers are the same, and sums differ by their order. 8 bits move logits by some percent.
TEST(VitTest, AttentionRunsOnTheIntegerKernels) {
  for (const char* name : {"vit-wee", "vit-dwee", "vit-pwee", "vit-dpwee"}) {
    VitPass pass(name);
    const std::vector<float> plain = pass.Logits({});
    const Plan plan = Plan::Parse("q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel");
    PlanRun run(plan, Carrying::kExecuted, ModelSitesOf(pass.model));
    const std::vector<float> executed = pass.Logits(run.Begin(pass.model));
    EXPECT_NE(executed, plain) << name;
    EXPECT_TRUE(AllNear(executed, plain, 0.1)) << name;
  }
}

ModelConfig Parsed(const Json& changes) {
  Json json = ReadJson(GoldenFolder("vit-dwee") / "config.json");
  json.merge_patch(changes);
  return ParseConfig(json.dump(), "here");
}

TEST(VitConfigTest, AnArchitectureGivesTheShapes) {
  const ModelConfig c =
      ParseConfig(R"({"architecture": "vit_dlittle_patch16_reg1_gap_256", "num_classes": 1000})", "c");
  EXPECT_EQ(c.family, "timm_diff_vit");
  EXPECT_EQ(c.hidden, 320);
  EXPECT_EQ(c.ffn, 1792);
  EXPECT_EQ(c.layers, 14);
  EXPECT_EQ(c.heads, 10);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_EQ(c.max_positions, 257);
  EXPECT_EQ(c.vocabulary, 1000);
  EXPECT_EQ(Parsed({{"num_classes", 5}}).vocabulary, 5);  // above model_args and pretrained_cfg
  EXPECT_EQ(Parsed({{"model_args", {{"qk_norm", false}, {"drop_path_rate", 0.1}, {"act_layer", nullptr}}}}).heads, 6);
  EXPECT_EQ(Parsed(Json::object()).pixel_std[2], 0.5f);
}

TEST(VitConfigTest, OtherModelsAreRefusedByName) {
  const auto refused = [](const Json& changes, const std::string& message) {
    EXPECT_THAT(Call([&] { Parsed(changes); }), ThrowsMessage<Error>(HasSubstr(message))) << changes.dump();
  };
  refused({{"architecture", "vit_base_patch16_224"}}, "architecture: got 'vit_base_patch16_224', expected vit_wee");
  refused({{"architecture", 7}}, "architecture: got 7, expected");
  refused({{"global_pool", "token"}}, "global_pool: \"token\" is not supported");
  const auto argument = [&](const char* key, const Json& value, const std::string& message) {
    refused({{"model_args", {{key, value}}}}, message);
  };
  argument("qk_norm", true, "here: model_args: qk_norm: true is not supported");
  argument("class_token", true, "class_token: true is not supported");
  argument("global_pool", "map", "global_pool: \"map\" is not supported");
  argument("fc_norm", false, "fc_norm: false is not supported");
  argument("qkv_bias", false, "qkv_bias: false is not supported");
  argument("dual_lambda", true, "dual_lambda: true is not supported");
  argument("embed_dim", 25, "hidden_size: got 25, expected a multiple of num_attention_heads 6");
  argument("num_heads", 1 << 30, "num_attention_heads: got 2147483648");
  argument("depth", 1 << 30, "num_hidden_layers: got");
  argument("mlp_ratio", 1e300, "mlp_ratio: got an FFN of");
  argument("img_size", 7, "got images of 7 pixels");
  argument("reg_tokens", 0, "reg_tokens: got 0");
  argument("num_classes", -1, "num_classes: got -1");
  refused({{"pretrained_cfg", {{"mean", {0.5}}}}}, "image_mean: got 1 numbers, expected 3");
  refused({{"pretrained_cfg", {{"input_size", {3, 24, 20}}}}}, "input_size: got other images");
  refused({{"pretrained_cfg", {{"input_size", {3, nullptr, nullptr}}}}}, "input_size: got other images");
  refused({{"model_args", "x"}}, "model_args: got");
}

TEST(VitTest, PartsOfAMatrixThatAreColumnsAreCopiedWithTheFirstOnesBias) {
  const std::filesystem::path folder = GoldenFolder("vit-dpwee");
  const Checkpoint whole(folder), split = OpenSplit(folder, LoadConfig(folder));
  const TensorView &all = *whole.Find("blocks.1.out_proj.weight"), &attn = *split.Find("blocks.1.out_proj.attn.weight"),
                   &mlp = *split.Find("blocks.1.out_proj.mlp.weight");
  ASSERT_EQ(attn.shape, (std::vector<int64_t>{24, 24}));
  ASSERT_EQ(mlp.shape, (std::vector<int64_t>{24, 60}));
  const auto* values = reinterpret_cast<const float*>(all.bytes.data());
  const auto *left = reinterpret_cast<const float*>(attn.bytes.data()),
             *right = reinterpret_cast<const float*>(mlp.bytes.data());
  for (int64_t row = 0; row < 24; ++row) {
    for (int64_t i = 0; i < 84; ++i)
      EXPECT_EQ(values[row * 84 + i], i < 24 ? left[row * 24 + i] : right[row * 60 + i - 24]) << row << " " << i;
  }
  EXPECT_FALSE(split.Has("blocks.1.out_proj.weight"));
  EXPECT_TRUE(split.Has("blocks.1.out_proj.attn.bias"));
  EXPECT_EQ(split.total_bytes(), whole.total_bytes());
}

TEST(VitTest, AMatrixOfAnotherWidthIsNamed) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("vit-dpwee"));
  checkpoint.tensors.at("blocks.0.out_proj.weight").shape = {28, 72};
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("blocks.0.out_proj.weight': got shape [28, 72], expected [24, 84]")));
}

TEST(VitTest, APartOfAnImageIsRefused) {
  VitPass pass("vit-wee");
  TokenBatch part;
  part.Add(0, std::span(pass.batch.tokens).first(3));
  EXPECT_THAT(Call([&] { pass.model.Forward(part); }),
              ThrowsMessage<Error>(HasSubstr("got 3 tokens, expected the 10 of a whole image")));
}

}  // namespace
}  // namespace tare::vit_test
