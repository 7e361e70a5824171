// SPDX-License-Identifier: Apache-2.0
// Motif-3: the sites of attention through latents and the router's choices against golden values, its heads and
// windows, experts in NVFP4 and as bf16, rules of plans, calibration of its inputs, the first layers alone, and
// refusals; parity_test.cc compares the rest of the pass.
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "experiments/model/config/rotary.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::motif3_test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char *kDense = "motif3", *kRouted = "motif3-nvfp4";
constexpr double kTolerance = 2e-5;

// Rows [tokens][heads][columns] of each site.
class Rows : public SiteVisitor {
 public:
  Rows(const ModelConfig& config, const TokenBatch& batch) : config_(config), rows_(batch.Rows()) {
    for (const AttentionSequence& s : batch.sequences) first_row_.push_back(s.first_row);
  }
  bool Wants(Site site, std::optional<int>) const override {
    return site != Site::kAttnLogits && site != Site::kProbs && site != Site::kDifference;
  }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    const int64_t heads = std::max(HeadsOf(b.site, config_), 1);
    std::vector<float>& all = values[{b.site, b.layer.value_or(-1)}];
    all.resize(static_cast<size_t>(rows_ * heads * b.Columns(0)));
    for (int64_t r = 0; r < b.rows; ++r) {
      const int64_t row = (first_row_[b.slot] + b.first_row + r) * heads + b.head.value_or(0);
      std::ranges::copy(b.Row(r), all.begin() + row * std::ssize(b.Row(r)));
    }
  }
  const std::vector<float>& At(Site site, int layer) const { return values.at({site, layer}); }
  std::map<std::pair<Site, int>, std::vector<float>> values;

 private:
  const ModelConfig& config_;
  int64_t rows_;
  std::vector<int64_t> first_row_;
  std::mutex mutex_;
};

// The first `count` columns, or the last.
std::vector<float> Columns(const std::vector<float>& rows, int64_t width, int64_t first, int64_t count) {
  std::vector<float> some;
  for (int64_t row = 0; row < std::ssize(rows); row += width)
    some.insert(some.end(), rows.begin() + row + first, rows.begin() + row + first + count);
  return some;
}

TEST(Motif3Test, SitesOfAttention) {
  for (const char* name : {kDense, kRouted}) {
    Model model(GoldenFolder(name));
    const ModelConfig& c = model.config();
    const TokenBatch batch = GoldenBatch(name);
    Rows rows(c, batch);
    SiteVisitor* const visitors[] = {&rows};
    model.Forward(batch, visitors);
    const Safetensors expected(GoldenFolder(name) / "expected.safetensors");
    const std::vector<OutputHead> heads = HeadTable(c);
    const int64_t outputs = std::ssize(heads), r = c.rotary.Channels(c.head_dim), dv = c.ValueDim();
    for (int layer = 0; layer < c.layers; ++layer) {
      const auto golden = [&](const char* what) { return ValuesOf<float>(expected, Formatted("{}.{}", what, layer)); };
      const auto check = [&](const std::vector<float>& values, const std::vector<float>& as, const char* what) {
        EXPECT_TRUE(AllNear(values, as, kTolerance)) << name << " " << what << " " << layer;
      };
      check(rows.At(Site::kQBProjIn, layer), golden("q_latent"), "q_latent");
      const std::vector<float> latent = golden("kv_latent");
      check(rows.At(Site::kKvBProjIn, layer), Columns(latent, c.kv_rank + r, 0, c.kv_rank), "kv_latent");
      const std::vector<float>& k = rows.At(Site::kK, layer);
      for (int head = 0; head < c.kv_heads; ++head)
        check(Columns(k, int64_t{c.kv_heads} * c.head_dim, (head + 1) * c.head_dim - r, r),
              Columns(latent, c.kv_rank + r, c.kv_rank, r), "rotated keys");
      const std::vector<float> lambda = golden("lambda"), maps = golden("head_out");
      check(rows.At(Site::kLambda, layer), lambda, "lambda");
      check(rows.At(Site::kAttnGate, layer), golden("gate"), "gate");
      std::vector<float> differences;
      for (int64_t row = 0; row < batch.Rows(); ++row) {
        for (int64_t h = 0; h < outputs; ++h) {
          const float* const of = maps.data() + row * c.heads * dv;
          for (int64_t i = 0; i < dv; ++i)
            differences.push_back(of[heads[h].q1 * dv + i] - lambda[row * outputs + h] * of[heads[h].q2 * dv + i]);
        }
      }
      check(rows.At(Site::kHeadOut, layer), differences, "head_out");
      check(rows.At(Site::kAttnOut, layer), golden("attn_out"), "attn_out");
    }
  }
}

TEST(Motif3Test, TheLastRouterChoosesAsTheGoldenOne) {
  Model model(GoldenFolder(kRouted));
  const TokenBatch batch = GoldenBatch(kRouted);
  model.Forward(batch);
  const auto chosen = ValuesOf<int64_t>(Safetensors(GoldenFolder(kRouted) / "expected.safetensors"), "chosen.3");
  std::vector<int64_t> ours(model.ChosenExperts().begin(), model.ChosenExperts().end());
  const auto k = static_cast<size_t>(model.config().chosen_experts);
  ASSERT_EQ(ours.size(), chosen.size());
  for (size_t i = 0; i < ours.size(); i += k) {
    EXPECT_TRUE(std::is_permutation(ours.begin() + static_cast<int64_t>(i), ours.begin() + static_cast<int64_t>(i + k),
                                    chosen.begin() + static_cast<int64_t>(i)))
        << i;
  }
}

TEST(Motif3Test, ConfigurationOfLayers) {
  const ModelConfig c = LoadConfig(GoldenFolder(kRouted));
  EXPECT_EQ(c.family, "motif3");
  EXPECT_EQ(HeadTable(c).size(), 6u);                    // 3 groups of 2 signal heads and a noise head
  EXPECT_EQ(c.windows, (std::vector<int>{0, 5, 5, 0}));  // 4 keys before the query's own
  const double m = 0.1 * std::log(16.0) + 1;
  EXPECT_FLOAT_EQ(c.AttentionScale(0), static_cast<float>(m * m / std::sqrt(14.0)));
  EXPECT_FLOAT_EQ(c.AttentionScale(1), static_cast<float>(1 / std::sqrt(14.0)));
  EXPECT_EQ(c.rotary.Channels(c.head_dim), 6);
  EXPECT_EQ(c.rotary.attention_factor, 1);
  EXPECT_EQ(c.StreamWidth(), 4 * 32);
}

// Every share of q_rank and head_dim that fits gives as many channels as config.json says.
TEST(Motif3Test, RotatedChannelsAreExact) {
  nlohmann::json json = ReadJson(GoldenFolder(kDense) / "config.json");
  for (int d = 4; d < 300; d += 5) {  // odd and even
    json["head_dim"] = d;
    for (int r = 2; r < d; r += 2) {
      json["qk_rope_head_dim"] = r;
      json["v_head_dim"] = 1;
      ASSERT_EQ(ParseConfig(json.dump(), "c").rotary.Channels(d), r) << d;
    }
  }
}

// The experts as values: the same model, in the layout of the bf16 folder.
TEST(Motif3Test, ExpertsAsValues) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder(kRouted));
  const Checkpoint files(GoldenFolder(kRouted));
  checkpoint.config.erase("quantization_config");
  for (int layer = 1; layer < 4; ++layer) {
    for (const char* matrix : {"gate_up_proj", "down_proj"}) {
      const std::string name = Formatted("model.layers.{}.moe.experts.{}", layer, matrix);
      const ForeignMatrix& codes = *files.FindForeign(name);
      EXPECT_EQ(codes.scheme(), "ModelOpt nvfp4/group16");
      std::vector<float> values(static_cast<size_t>(codes.out() * codes.in()));
      codes.Rows(0, codes.out(), values.data());
      const auto bytes = std::as_bytes(std::span(values));
      checkpoint.tensors[name] = {DType::kF32, {5, codes.out() / 5, codes.in()}, {bytes.begin(), bytes.end()}};
      for (const char* part : {"_weight_scale", "_weight_scale_2"}) checkpoint.tensors.erase(name + part);
    }
  }
  checkpoint.Write(folder / "values");
  Model codes(GoldenFolder(kRouted)), values(folder / "values");
  const TokenBatch batch = GoldenBatch(kRouted);
  EXPECT_TRUE(AllNear(LogitsOf(values, batch), LogitsOf(codes, batch), 1e-6));
}

// Code by code: E2M1 times the block's E4M3 times the expert's scale.
TEST(Motif3Test, CodesOfAnExpert) {
  const EditedCheckpoint stored(GoldenFolder(kRouted));
  const Checkpoint files = OpenSplit(GoldenFolder(kRouted), LoadConfig(GoldenFolder(kRouted)));
  constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const std::string name = "model.layers.2.moe.experts.gate_up_proj";
  const auto& [dtype, shape, codes] = stored.tensors.at(name);
  const auto& scales = stored.tensors.at(name + "_weight_scale").bytes;
  const auto& second = stored.tensors.at(name + "_weight_scale_2");
  for (int expert = 0; expert < 5; ++expert) {
    const ForeignMatrix& matrix =
        *files.FindForeign(Formatted("model.layers.2.moe.experts.{}.gate_up_proj.weight", expert));
    ASSERT_EQ(matrix.out(), 32);
    ASSERT_EQ(matrix.in(), 32);
    std::vector<float> row(32);
    for (int64_t r = 0; r < 32; ++r) {
      matrix.Row(r, row.data());
      for (int64_t i = 0; i < 32; ++i) {
        const auto at = static_cast<size_t>(expert * 32 + r);
        const int code = std::to_integer<int>(codes[at * 16 + static_cast<size_t>(i / 2)]) >> (i % 2 * 4) & 15;
        const int e4m3 = std::to_integer<int>(scales[at * 2 + static_cast<size_t>(i / 16)]), exponent = e4m3 >> 3 & 15;
        const double scale = exponent == 0 ? std::ldexp(e4m3 & 7, -9) : std::ldexp(8 + (e4m3 & 7), exponent - 10);
        const double value = kE2M1[code & 7] * (code & 8 ? -1 : 1) * scale * second.Value(static_cast<size_t>(expert));
        ASSERT_NEAR(row[static_cast<size_t>(i)], value, std::abs(value) * 1e-6) << expert << " " << r << " " << i;
      }
    }
  }
}

TEST(Motif3Test, PlansAreCarriedOut) {
  for (const char* name : {kDense, kRouted}) {
    Model model(GoldenFolder(name));
    const TokenBatch batch = GoldenBatch(name);
    const std::vector<float> exact = LogitsOf(model, batch);
    const auto run = [&](const char* plan, Carrying carrying) {
      PlanRun one(Plan::Parse(plan), carrying, ModelSitesOf(model));
      const SiteVisitors visitors = one.Begin(model);
      return LogitsOf(model, batch, visitors);
    };
    // A token near the middle between two experts may choose the other.
    EXPECT_TRUE(AllNear(run("int8", Carrying::kExecuted), exact, name == kDense ? 0.1 : 0.3)) << name;
    for (const char* plan : {"attn_logits[m2]=int6/row", "weights=int8/channel", "kv_b_proj.in=int8/token",
                             "attn_gate=u8/token", "lambda=u8/token", "layer_out=int8/token"}) {
      const std::vector<float> rounded = run(plan, Carrying::kSimulated);
      EXPECT_TRUE(AllNear(rounded, exact, 0.3)) << name << " " << plan;
      EXPECT_NE(rounded, exact) << name << " " << plan;
    }
    EXPECT_THAT(Call([&] { run("q_proj.w=int8/channel", Carrying::kSimulated); }), ThrowsMessage<UsageError>(_))
        << name;
    EXPECT_THAT(Call([&] { run("k=int8/token+prerotary", Carrying::kSimulated); }),
                ThrowsMessage<UsageError>(HasSubstr("whose keys turn in their last channels")))
        << name;
  }
  const ModelSites llama = ModelSitesOf(LoadConfig(GoldenFolder("llama-mha")));
  EXPECT_FALSE(llama.Has(Site::kQAProjW) || llama.Has(Site::kSharedUpIn));
  EXPECT_TRUE(llama.Has(Site::kQProjW) && llama.Has(Site::kKProjIn));
}

// The stream after a layer does not depend on those behind it.
TEST(Motif3Test, TheFirstLayersAlone) {
  Model all(GoldenFolder(kRouted)), some(GoldenFolder(kRouted), WeightReading::kWhole, Math::kF32, {}, 2);
  EXPECT_EQ(some.config().layers, 2);
  const TokenBatch batch = GoldenBatch(kRouted);
  Rows of_all(all.config(), batch), of_some(some.config(), batch);
  SiteVisitor *const first[] = {&of_all}, *const second[] = {&of_some};
  all.Forward(batch, first);
  some.Forward(batch, second);
  EXPECT_EQ(of_all.At(Site::kLayerOut, 1), of_some.At(Site::kLayerOut, 1));
  EXPECT_THAT(Call([] { Model(GoldenFolder(kRouted), WeightReading::kWhole, Math::kF32, {}, 5); }),
              ThrowsMessage<UsageError>(HasSubstr("--layers: got 5, expected at most 4")));
}

// A folder that was downloaded in part.
TEST(Motif3Test, ShardsOfLaterLayersMayBeMissing) {
  const TemporaryFolder folder;
  const std::filesystem::path golden = GoldenFolder(kRouted);
  std::filesystem::copy_file(golden / "config.json", folder / "config.json");
  const Safetensors stored[]{Safetensors(golden / "model-00001-of-00002.safetensors"),
                             Safetensors(golden / "model-00002-of-00002.safetensors")};
  std::vector<TensorView> present;
  nlohmann::json index;
  for (const Safetensors& file : stored) {
    for (const TensorView& tensor : file.tensors()) {
      const bool later = tensor.name.starts_with("model.layers.2.") || tensor.name.starts_with("model.layers.3.");
      index["weight_map"][tensor.name] = later ? "b.safetensors" : "a.safetensors";
      if (!later) present.push_back(tensor);
    }
  }
  WriteSafetensors(folder / "a.safetensors", present);
  PutFile(folder / "model.safetensors.index.json", index.dump());
  const auto with = [&](int layers) { return Model(folder.path(), WeightReading::kWhole, Math::kF32, {}, layers); };
  Model whole(golden, WeightReading::kWhole, Math::kF32, {}, 2), part = with(2);
  const TokenBatch batch = GoldenBatch(kRouted);
  EXPECT_EQ(LogitsOf(part, batch), LogitsOf(whole, batch));
  EXPECT_THAT(
      Call([&] { with(3); }),
      ThrowsMessage<Error>(AllOf(HasSubstr("tensor 'model.layers.2."),
                                 HasSubstr("; the folder lacks 1 shard, such as b.safetensors; try downloading"))));
  EXPECT_THAT(Call([&] { with(0); }), ThrowsMessage<Error>(HasSubstr("b.safetensors: no such file, but the index")));
}

TEST(Motif3Test, OtherModelsAreRefusedByKey) {
  const auto refuses = [](const char* key, const nlohmann::json& value, const char* why) {
    nlohmann::json json = ReadJson(GoldenFolder(kRouted) / "config.json");
    json.erase("quantization_config");
    json[key] = value;
    EXPECT_THAT(Call([&] { ParseConfig(json.dump(), "c.json"); }), ThrowsMessage<Error>(HasSubstr(why))) << key;
  };
  refuses("num_noise_heads", 9, "c.json: num_noise_heads: got 9 of 9 heads, 3 of keys, expected groups");
  refuses("num_key_value_heads", 9, "c.json: num_noise_heads: got 3 of 9 heads, 9 of keys");
  refuses("qk_rope_head_dim", 5, "c.json: qk_rope_head_dim: got 5, expected an even number");
  refuses("v_head_dim", 15, "c.json: v_head_dim: got 15, expected 1 to 14");
  refuses("kv_lora_rank", 1 << 21, "c.json: kv_lora_rank: got 2097152, expected 1 to 1048576");
  refuses("diff_v2", false, "c.json: diff_v2: false is not supported in a Motif-3 model");
  refuses("route_norm", false, "c.json: route_norm: false is not supported");
  refuses("score_func", "softmax", "c.json: score_func: \"softmax\" is not supported");
  refuses("sliding_window_pattern", "all", "c.json: sliding_window_pattern: \"all\" is not supported");
  refuses("mhc_h_post_alpha_end", 1.0, "c.json: mhc_h_post_alpha_end: 1.0 is not supported");
  refuses("num_shared_experts", 2, "c.json: num_shared_experts: 2 is not supported");
  refuses("mhc_expansion_rate", 17, "c.json: mhc_expansion_rate: got 17, expected 1 to 16");
  refuses("rope_factor", 8, "c.json: rope_scaling: got yarn with factor 16, expected yarn with rope_factor 8 and");
  refuses("original_seq_len", 128, "expected yarn with rope_factor 16 and original_seq_len 128");
  refuses("rope_scaling", nullptr, "c.json: rope_scaling: got default with factor 1, expected yarn");
  refuses("attention_bias", true, "c.json: attention_bias: true is not supported");
}

TEST(Motif3Test, OtherTensorsAreRefused) {
  const TemporaryFolder folder;
  const auto refuses = [&](const auto& change, const char* why) {
    EditedCheckpoint checkpoint(GoldenFolder(kRouted));
    change(checkpoint);
    checkpoint.Write(folder / "edited");
    EXPECT_THAT(Call([&] { Model(folder / "edited"); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  const std::string experts = "model.layers.1.moe.experts.", scales = experts + "down_proj_weight_scale";
  refuses([&](auto& c) { c.tensors.at(scales).shape = {32, 5, 1}; }, "expected [5, 32, 1]");
  refuses([&](auto& c) { c.tensors.at(scales + "_2").SetBits(3, 0x7fc00000); },
          "_weight_scale_2', index 3: got nan, expected a number of 0 or more");
  refuses([&](auto& c) { c.tensors.erase(scales); }, "down_proj_weight_scale_2");
  refuses([](auto& c) { c.config["quantization_config"]["group_size"] = 32; }, "group_size");
  refuses([](auto& c) { c.config["num_experts"] = 4; }, "rows from config.json");
  // Predictors of more tokens are left out.
  EditedCheckpoint more(GoldenFolder(kDense));
  more.tensors["model.mtp_layers.0.norm.weight"] = more.tensors.at("model.norm.weight");
  more.Write(folder / "more");
  EXPECT_EQ(Model(folder / "more").config().layers, 4);
}

}  // namespace
}  // namespace tare::motif3_test
