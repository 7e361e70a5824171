// SPDX-License-Identifier: Apache-2.0
// Kinds of layers, keys and tensors that decide over them, what flows between layers and tokens, plans, and refusals;
// parity_test.cc compares the forward pass with golden data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <mutex>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/observe/statistics_report.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/message.h"
#include "quant/file/quantized_checkpoint.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::phi4flash_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kName = "phi4flash";

nlohmann::json Small() {
  nlohmann::json json = SmallConfig(kName);
  json["num_hidden_layers"] = 8;
  json["num_key_value_heads"] = 2;
  return json;
}

TEST(Phi4FlashTest, KindsOfLayers) {
  const ModelConfig c = Parsed(Small());
  std::vector<std::string> kinds;
  std::vector<int> keys;
  for (int layer = 0; layer < 8; ++layer) kinds.push_back(KindText(c, layer)), keys.push_back(c.KeysLayer(layer));
  EXPECT_THAT(kinds, ElementsAre("mamba", "window", "mamba", "window", "mamba", "full", "memory unit", "shared"));
  EXPECT_THAT(keys, ElementsAre(-1, 1, -1, 3, -1, 5, -1, 5));
  EXPECT_THAT(c.windows, ElementsAre(0, 2047, 0, 2047, 0, 0, 0, 0));
  EXPECT_EQ(c.scan_channels, 96);
  EXPECT_EQ(c.scan_states, 16);
  EXPECT_EQ(c.scan_rank, 3);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_FALSE(c.rotates);
  const ModelConfig four = Parsed(With(Small(), "num_hidden_layers", 4));
  EXPECT_EQ(KindText(four, 1) + KindText(four, 2) + KindText(four, 3), "windowmambafull");
}

TEST(Phi4FlashTest, WindowsAsANumberAListOrNone) {
  const auto windows = [](const nlohmann::json& value) {
    return Parsed(With(Small(), "sliding_window", value)).windows;
  };
  EXPECT_THAT(windows(9), ElementsAre(0, 9, 0, 9, 0, 0, 0, 0));
  const nlohmann::json null;
  EXPECT_THAT(windows({null, 9, null, 5, null, null, null, null}), ElementsAre(0, 9, 0, 5, 0, 0, 0, 0));
  EXPECT_THAT(windows({null, 9, null, null, null, null, null, null}), ElementsAre(0, 9, 0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(windows(null).empty());
}

TEST(Phi4FlashTest, RefusesWhatItDoesNotCompute) {
  const nlohmann::json null;
  ExpectConfigRefused(With(Small(), "num_hidden_layers", 6), "num_hidden_layers", "got 6, expected a multiple of 4");
  ExpectConfigRefused(With(Small(), "mb_per_layer", 4), "mb_per_layer", "got 4, expected 2");
  ExpectConfigRefused(With(Small(), "sliding_window", 0), "sliding_window", "got 0");
  ExpectConfigRefused(With(Small(), "sliding_window", "all"), "sliding_window", "expected an integer");
  ExpectConfigRefused(With(Small(), "sliding_window", {7, 7}), "sliding_window", "a list of 2");
  ExpectConfigRefused(With(Small(), "sliding_window", {null, 0, null, 5, null, null, null, null}), "sliding_window",
                      "got 0");
  ExpectConfigRefused(With(Small(), "sliding_window", {null, 7, null, 7, null, 7, null, null}), "sliding_window",
                      "got 7 in layer 5, expected null");
  ExpectConfigRefused(With(Small(), "mamba_dt_rank", "half"), "mamba_dt_rank", "expected auto or a number");
  ExpectConfigRefused(With(Small(), "mamba_dt_rank", 0), "mamba_dt_rank", "got 0");
  ExpectConfigRefused(With(Small(), "mamba_d_state", 0), "mamba_d_state", "got 0");
  ExpectConfigRefused(With(Small(), "mamba_d_conv", -1), "mamba_d_conv", "got -1");
  ExpectConfigRefused(With(Small(), "mamba_expand", 1 << 30), "mamba_expand", "too large");
  ExpectConfigRefused(With(Small(), "lm_head_bias", true), "lm_head_bias", "not supported");
  ExpectConfigRefused(With(Small(), "hidden_act", "prelu"), "hidden_act", "expected silu, swish, gelu");
  ExpectConfigRefused(With(Small(), "num_key_value_heads", 1), "num_key_value_heads", "an even number");
  ExpectConfigRefused(With(Small(), "rope_scaling", {{"type", "yarn"}}), "rope_scaling", "not supported");
  ExpectConfigRefused(With(Small(), "head_dim", 16), "head_dim", "expected hidden_size 48 / num_attention_heads 4");
}

// Layers lack a convolution's bias, and keys that claim otherwise are ignored.
TEST(Phi4FlashTest, TensorsDecideOverKeys) {
  EditedCheckpoint checkpoint(GoldenFolder(kName));
  const TemporaryFolder folder;
  for (const int layer : {0, 2, 4})
    for (const char* tensor : {"conv1d.bias", "dt_proj.bias"}) {
      auto& values = checkpoint.tensors.at("model.layers." + std::to_string(layer) + ".attn." + tensor);
      if (tensor == std::string("conv1d.bias")) std::ranges::fill(values.bytes, std::byte{0});
    }
  checkpoint.Write(folder / "zero");
  for (const int layer : {0, 2, 4})
    checkpoint.tensors.erase("model.layers." + std::to_string(layer) + ".attn.conv1d.bias");
  checkpoint.config["mamba_dt_rank"] = 7;
  checkpoint.config["mamba_d_state"] = 16;
  checkpoint.config["mamba_expand"] = 3;
  checkpoint.config["mamba_conv_bias"] = true;
  checkpoint.config["mlp_bias"] = true;
  checkpoint.Write(folder / "none");
  Model zero(folder / "zero"), none(folder / "none");
  EXPECT_EQ(none.config().scan_rank, 4);
  EXPECT_FALSE(none.config().scan_conv_bias);
  EXPECT_EQ(LogitsOf(none, GoldenBatch(kName)), LogitsOf(zero, GoldenBatch(kName)));
}

TEST(Phi4FlashTest, ARandomCheckpointIsWhole) {
  const TemporaryFolder folder;
  ModelConfig asked = Parsed(With(With(Small(), "sliding_window", 5), "mamba_d_state", 3));
  asked.max_positions = 64;
  WriteRandomCheckpoint(folder / "m", asked, WeightType::kBf16, 3);
  Model model(folder / "m");
  EXPECT_EQ(model.config().windows, asked.windows);
  EXPECT_EQ(model.config().kinds, asked.kinds);
  EXPECT_EQ(model.config().scan_states, 3);
  EXPECT_TRUE(CheckpointFiles(folder / "m").Find("model.layers.5.attn.Wqkv.weight"));
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
  for (const float logit : LogitsOf(model, batch)) EXPECT_TRUE(std::isfinite(logit));
}

TEST(Phi4FlashTest, MissingTensorsAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"model.layers.5.attn.Wqkv.weight", "model.layers.4.attn.A_log",
                           "model.layers.6.attn.in_proj.weight", "model.layers.0.attn.A_log"}) {
    EditedCheckpoint checkpoint(GoldenFolder(kName));
    checkpoint.tensors.erase(name);
    checkpoint.Write(folder / "m");
    const std::string stem = std::string(name).substr(0, std::string(name).find(".weight"));
    EXPECT_THAT(Call([&] { Model(folder / "m"); }), ThrowsMessage<Error>(AllOf(HasSubstr(stem), HasSubstr("missing"))));
  }
}

TEST(Phi4FlashTest, LambdaOfEachAttentionLayer) {
  const Model model(GoldenFolder(kName));
  const Safetensors expected(GoldenFolder(kName) / "expected.safetensors");
  for (int layer = 0; layer < 8; ++layer) {
    const std::vector<float>& lambda = model.layers()[static_cast<size_t>(layer)].lambda;
    if (layer % 2 == 0) {
      EXPECT_TRUE(lambda.empty()) << layer;
    } else {
      EXPECT_TRUE(AllNear(lambda, ValuesOf<float>(expected, "lambda." + std::to_string(layer)), 2e-6)) << layer;
    }
  }
}

// A branch is the sequence that it continues and itself, to the last bit but those of sums in another order.
TEST(Phi4FlashTest, BranchesContinueScansAndMasks) {
  Model model(GoldenFolder(kName));
  const std::vector<std::vector<int32_t>> rows = GoldenRows(kName);
  TokenBatch branched;
  branched.Add(0, std::span(rows[0]).first(20));
  branched.AddBranch(std::span(rows[0]).subspan(20, 9));
  branched.AddBranch(std::span(rows[1]).first(5));
  const std::vector<float> got = LogitsOf(model, branched);
  std::vector<int32_t> other(rows[0].begin(), rows[0].begin() + 20);
  other.insert(other.end(), rows[1].begin(), rows[1].begin() + 5);
  TokenBatch whole;
  whole.Add(0, std::span(rows[0]).first(29));
  whole.Add(1, other);
  std::vector<float> expected = LogitsOf(model, whole);
  const auto V = static_cast<ptrdiff_t>(model.config().vocabulary);
  expected.erase(expected.begin() + 29 * V, expected.begin() + 49 * V);
  EXPECT_TRUE(AllNear(got, expected, 2e-6));
}

// Layer by layer with another batch between: what later layers read stays with its stream.
TEST(Phi4FlashTest, StreamsKeepWhatLayersShare) {
  Model model(GoldenFolder(kName));
  const std::vector<std::vector<int32_t>> rows = GoldenRows(kName);
  TokenBatch a, b;
  a.Add(0, rows[0]);
  b.Add(0, std::span(rows[1]).first(11));
  Stream x, y;
  model.EmbedInto(a, x);
  model.EmbedInto(b, y);
  for (int layer = 0; layer < 8; ++layer) {
    Stream copy(x);
    model.RunLayer(a, layer, x);
    model.RunLayer(a, layer, copy);
    model.RunLayer(b, layer, y);  // the last before a's next layer
    EXPECT_TRUE(std::ranges::equal(copy.x.span(), x.x.span())) << layer;
  }
  const Safetensors expected(GoldenFolder(kName) / "expected.safetensors");
  const auto last = ValuesOf<float>(expected, "layer_out.7");
  EXPECT_TRUE(AllNear(x.x.span(), std::span(last).first(37 * 64), 2e-5));
}

// Three layers make keys and values, three scans have states.
TEST(Phi4FlashTest, ACacheHoldsSharedKeysOnce) {
  Model model(GoldenFolder(kName));
  SequenceCache cache(model.config(), {});
  EXPECT_EQ(&cache.Layer(7), &cache.Layer(5));
  EXPECT_TRUE(cache.Owns(5));
  EXPECT_FALSE(cache.Owns(7));
  const size_t scans = 3 * 128 * (4 + 3) * sizeof(float);
  EXPECT_EQ(cache.Bytes(), scans);
  TokenBatch batch;
  batch.AddAfter(cache, 0, std::vector<int32_t>{5, 9, 11});
  model.Forward(batch);
  EXPECT_EQ(cache.tokens(), 3);
  EXPECT_EQ(cache.Layer(5).tokens(), 3);
  EXPECT_EQ(cache.Bytes(), scans + 3 * cache.Layer(5).Bytes());
}

TEST(Phi4FlashTest, RefusesCachesThatItCannotHave) {
  const ModelConfig c = LoadConfig(GoldenFolder(kName));
  EXPECT_THAT(Call([&] { SequenceCache(c, ParseCachePlan("keep=h2o/64")); }),
              ThrowsMessage<Error>(HasSubstr("keys that several layers share")));
  EXPECT_THAT(Call([&] { SequenceCache(c, ParseCachePlan("cache_k=int8/token+prerotary")); }),
              ThrowsMessage<Error>(HasSubstr("no rotary positions")));
}

std::vector<float> Under(Model& model, const std::string& plan, Carrying carrying) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(kName), visitors);
}

// Keys and values of layer 5 are rounded once, for it and for layer 7; a rule for layer 7 alone is refused.
TEST(Phi4FlashTest, SharedKeysFollowTheirLayersRule) {
  Model model(GoldenFolder(kName));
  const std::string attention = "q=int8/token,k=int8/token,v=int8/block64.channel,probs=u8/block64";
  const std::vector<float> exact = Under(model, "", Carrying::kSimulated);
  for (const std::string& plan : {attention, attention + ",k[l5]=int4/token"}) {
    const std::vector<float> simulated = Under(model, plan, Carrying::kSimulated),
                             executed = Under(model, plan, Carrying::kExecuted);
    double error = 0, apart = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(double{simulated[i]} - exact[i], 2);
      apart += std::pow(double{executed[i]} - simulated[i], 2);
    }
    EXPECT_GT(error, 0) << plan;
    EXPECT_LT(std::sqrt(apart), 0.6 * std::sqrt(error)) << plan;
  }
  EXPECT_THAT(Call([&] { Under(model, "k[l7]=int4/token", Carrying::kSimulated); }),
              ThrowsMessage<UsageError>(HasSubstr("got layers without k, expected some of layers 1, 3 and 5")));
}

// Every site of a scan changes what is computed; its states only with scales of their own token.
TEST(Phi4FlashTest, PlansReachTheScan) {
  Model model(GoldenFolder(kName));
  const std::vector<float> exact = Under(model, "", Carrying::kSimulated);
  for (const char* site :
       {"scan.in",          "scan.delta",        "scan.b",           "scan.c",           "scan.state",
        "scan.out",         "mamba.gate",        "gmu.gate",         "mamba.in_proj.in", "mamba.x_proj.in",
        "mamba.dt_proj.in", "mamba.out_proj.in", "gmu.in_proj.in",   "gmu.out_proj.in",  "mamba.in_proj.w",
        "mamba.x_proj.w",   "mamba.dt_proj.w",   "mamba.out_proj.w", "gmu.in_proj.w",    "gmu.out_proj.w"}) {
    const std::string scale = std::string_view(site).ends_with(".w") ? "channel" : "token";
    const std::vector<float> rounded = Under(model, std::string(site) + "=int8/" + scale, Carrying::kSimulated);
    EXPECT_NE(rounded, exact) << site;
    EXPECT_TRUE(AllNear(rounded, exact, 0.2)) << site;
  }
  EXPECT_THAT(Call([&] { Under(model, "scan.state=int8/tensor", Carrying::kSimulated); }),
              ThrowsMessage<UsageError>(HasSubstr("later states follow from a token's rounded state")));
  EXPECT_THAT(Call([&] { Under(model, "scan.in=int8/token", Carrying::kExecuted); }),
              ThrowsMessage<UsageError>(HasSubstr("without an integer kernel")));
}

// Rows of attention logits are of layers with attention, and every layer says its kind.
TEST(Phi4FlashTest, OutliersByKindOfLayer) {
  Model model(GoldenFolder(kName));
  std::vector<ScoredSequence> sequences;
  for (const std::vector<int32_t>& row : GoldenRows(kName)) sequences.push_back({.tokens = row});
  const TokenInput input{.kind = TokenInput::Kind::kIds, .sequences = {}, .bos = {}, .path = "ids", .sha256 = "aa"};
  const StatisticsSet set =
      CollectStatistics(model, input, sequences, {.sites = kOutlierSites, .skip_first = 1}, "", {}, {});
  const Json json = OutlierJson(set, model.config(), model.Name());
  std::vector<std::string> kinds;
  for (const Json& layer : json["layers"]) {
    kinds.push_back(layer["kind"]);
    EXPECT_EQ(layer["heads"].size(), kinds.size() % 2 == 0 ? 8u : 0u) << kinds.size() - 1;
  }
  EXPECT_THAT(kinds, ElementsAre("mamba", "window", "mamba", "window", "mamba", "full", "memory unit", "shared"));
  const std::string csv = OutlierCsv({json});
  EXPECT_THAT(csv, HasSubstr("phi4flash,attn_logits,7,"));
  EXPECT_THAT(csv, testing::Not(HasSubstr("phi4flash,attn_logits,0,")));
  EXPECT_THAT(csv, HasSubstr("phi4flash,layer_out,0,"));
}

// rtn in a file is rtn in memory; the scan's parameters stay; an exported folder is fused again.
TEST(Phi4FlashTest, QuantizedFilesHoldEveryKindOfWeight) {
  const TemporaryFolder folder;
  Quantize({GoldenFolder(kName), Plan::Parse("weights=int4/channel"), folder / "q.h5"}, {});
  Model stored(GoldenFolder(kName)), quantized(folder / "q.h5");
  EXPECT_EQ(LogitsOf(quantized, GoldenBatch(kName)), Under(stored, "weights=int4/channel", Carrying::kSimulated));
  const Checkpoint files(folder / "q.h5");
  for (const char* name : {"0.attn.in_proj", "0.attn.x_proj", "0.attn.dt_proj", "0.attn.out_proj", "6.attn.in_proj",
                           "6.attn.out_proj", "5.attn.Wqkv.k", "7.attn.Wqkv.q", "7.mlp.fc1.gate", "7.mlp.fc2"})
    EXPECT_NE(files.FindQuantized("model.layers." + std::string(name) + ".weight"), nullptr) << name;
  for (const char* name : {"A_log", "D", "conv1d.weight", "conv1d.bias", "dt_proj.bias"})
    EXPECT_NE(files.Find("model.layers.0.attn." + std::string(name)), nullptr) << name;
  ExportDequantized(folder / "q.h5", GoldenFolder(kName), folder / "m");
  EXPECT_EQ(CheckpointFiles(folder / "m").names(), CheckpointFiles(GoldenFolder(kName)).names());
  Model exported(folder / "m");
  EXPECT_EQ(LogitsOf(exported, GoldenBatch(kName)), LogitsOf(quantized, GoldenBatch(kName)));
}

// The largest magnitude at a site, in all layers that have it, over the root of the mean square.
class PeakOf : public SiteVisitor {
 public:
  explicit PeakOf(Site site) : site_(site) {}
  bool Wants(Site site, std::optional<int>) const override { return site == site_; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    for (int64_t r = 0; r < block.rows; ++r) {
      for (const float x : block.Row(r))
        largest_ = std::max(largest_, std::fabs(x)), squares_ += double{x} * x, ++count_;
    }
  }
  double Ratio() const { return largest_ / std::sqrt(squares_ / count_); }

 private:
  Site site_;
  std::mutex mutex_;
  float largest_ = 0;
  double squares_ = 0, count_ = 0;
};

// A channel of the stream that is 32 times as large as it was: a rotation spreads it over all, scaling moves it into
// weights, for every input behind a norm.
TEST(Phi4FlashTest, OutliersMove) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder(kName));
  EditedCheckpoint::Tensor& embedding = checkpoint.tensors.at("model.embed_tokens.weight");
  for (size_t i = 3; i < size_t{151} * 64; i += 64)
    embedding.SetBits(i, std::bit_cast<uint32_t>(32 * embedding.Value(i)));
  checkpoint.Write(folder / "m");
  const auto peaks = [&](const std::filesystem::path& path) {
    Model model(path);
    std::vector<double> ratios;
    for (const Site site : {Site::kMambaInProjIn, Site::kGmuInProjIn, Site::kQProjIn, Site::kGateProjIn}) {
      PeakOf peak(site);
      SiteVisitor* const visitors[] = {&peak};
      model.Forward(GoldenBatch(kName), visitors);
      ratios.push_back(peak.Ratio());
    }
    return ratios;
  };
  const std::vector<double> stored = peaks(folder / "m");
  for (const char* method : {"hadamard", "smoothquant:0.5"}) {
    QuantizeJob job = Calibrated(method, kName, "", folder);
    job.model = folder / "m";
    Quantize(job, {});
    const std::vector<double> moved = peaks(job.out);
    for (size_t i = 0; i < stored.size(); ++i)
      EXPECT_LT(moved[i], 0.85 * stored[i]) << method << " " << i << " " << stored[i];
  }
}

// Every way to other weights, and codes of them: the file opens as a model, about as close to the stored one as codes
// of the weights as they are; gptq adds what it fits to other text.
TEST(Phi4FlashTest, QuantizedByEveryMethod) {
  const TemporaryFolder folder;
  Model stored(GoldenFolder(kName));
  const std::vector<float> exact = LogitsOf(stored, GoldenBatch(kName));
  for (const char* method :
       {"rtn", "gptq", "smoothquant+rtn", "smoothquant:0.5+gptq", "awq+gptq", "hadamard+rtn", "hadamard+gptaq"}) {
    Quantize(Calibrated(method, kName, "weights=int8/channel", folder), {});
    EXPECT_EQ(QuantizedCheckpoint(folder / "g.h5").provenance().method, method);
    Model quantized(folder / "g.h5");
    const std::vector<float> logits = LogitsOf(quantized, GoldenBatch(kName));
    double lost = 0, all = 0;
    for (size_t i = 0; i < exact.size(); ++i) lost += std::pow(logits[i] - exact[i], 2), all += std::pow(exact[i], 2);
    EXPECT_LT(lost, 0.15 * 0.15 * all) << method;
    EXPECT_GT(lost, 0) << method;
  }
}

}  // namespace
}  // namespace tare::phi4flash_test
