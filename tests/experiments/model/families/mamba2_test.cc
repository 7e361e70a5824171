// SPDX-License-Identifier: Apache-2.0
// Mamba-2 and Diff-Mamba2: keys, tensors that decide over them, every site of each mixer against golden data, what
// flows between tokens, plans, files and refusals. parity_test.cc and greedy_test.cc compare the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
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

namespace tare::mamba2_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kTolerance = 2e-5;  // as parity_test.cc derives it

nlohmann::json Small() {
  return {{"model_type", "mamba2"}, {"vocab_size", 50}, {"hidden_size", 24}, {"num_hidden_layers", 4},
          {"num_heads", 6},         {"head_dim", 8},    {"state_size", 10},  {"n_groups", 2}};
}
std::vector<std::string> KindsOf(const ModelConfig& c) {
  std::vector<std::string> kinds;
  for (int layer = 0; layer < c.layers; ++layer) kinds.push_back(KindText(c, layer));
  return kinds;
}

TEST(Mamba2Test, Keys) {
  const ModelConfig c = Parsed(Small());
  EXPECT_EQ(c.family, "mamba2");
  EXPECT_EQ(c.scan_channels, 48);
  EXPECT_EQ(c.ffn, 0);
  EXPECT_EQ(c.least_step, 0);
  EXPECT_TRUE(std::isinf(c.most_step));
  EXPECT_THAT(KindsOf(c), Each("mamba"));
  EXPECT_THAT(KindsOf(Parsed(With(Small(), "model_type", "diffmamba2"))), Each("mamba pair"));
  const ModelConfig limited = Parsed(With(Small(), "time_step_limit", {0.05, 0.9}));
  EXPECT_EQ(limited.least_step, 0.05f);
  EXPECT_EQ(limited.most_step, 0.9f);
  for (int layer = 0; layer < 4; ++layer) EXPECT_EQ(c.KeysLayer(layer), -1);
}

// As Python writes it, which is no JSON.
TEST(Mamba2Test, LimitsMayBeInfinite) {
  const TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder("mamba2"), folder / "m");
  std::string text = GetFile(folder / "m/config.json");
  text.insert(text.find('{') + 1, "\"time_step_limit\": [0.0, Infinity],");
  PutFile(folder / "m/config.json", text);
  Model golden(GoldenFolder("mamba2")), limited(folder / "m");
  EXPECT_EQ(LogitsOf(limited, GoldenBatch("mamba2")), LogitsOf(golden, GoldenBatch("mamba2")));
}

TEST(Mamba2Test, RefusesWhatItDoesNotCompute) {
  ExpectConfigRefused(With(Small(), "expand", 3), "num_heads x head_dim", "got 6 x 8, expected expand 3");
  ExpectConfigRefused(With(Small(), "n_groups", 4), "n_groups", "got 4, expected a divisor of num_heads 6");
  ExpectConfigRefused(With(Small(), "state_size", 0), "state_size", "got 0");
  ExpectConfigRefused(With(Small(), "state_size", 1 << 30), "got 48 channels", "expected at most");
  ExpectConfigRefused(With(Small(), "hidden_act", "gelu"), "hidden_act", "not supported");
  ExpectConfigRefused(With(Small(), "time_step_limit", {0.9, 0.1}), "time_step_limit", "two rising numbers");
  ExpectConfigRefused(With(Small(), "time_step_limit", {1}), "time_step_limit", "two rising numbers");
  ExpectConfigRefused(With(Small(), "time_step_limit", {"a", "b"}), "time_step_limit", "a list of numbers");
  nlohmann::json missing = Small();
  missing.erase("num_heads");
  ExpectConfigRefused(missing, "key 'num_heads'", "missing");
}

// Values of every site of a batch of two equal sequences, by site and layer.
class Recorder : public SiteVisitor {
 public:
  explicit Recorder(int64_t tokens) : tokens_(tokens) {}
  bool Wants(Site, std::optional<int>) const override { return true; }
  void Visit(const SiteBlock& b, int) override {
    const std::lock_guard lock(mutex_);
    std::vector<float>& all = values[{b.site, b.layer.value_or(-1)}];
    all.resize(static_cast<size_t>(2 * tokens_ * b.stride));
    for (int64_t r = 0; r < b.rows; ++r)
      std::ranges::copy(b.Row(r), all.begin() + (b.sequence * tokens_ + b.first_row + r) * b.stride);
  }
  std::map<std::pair<Site, int>, std::vector<float>> values;

 private:
  int64_t tokens_;
  std::mutex mutex_;
};

struct GoldenSite {
  const char* tensor;
  Site plain, first, second;
};
constexpr GoldenSite kGoldenSites[]{{"scan", Site::kScanOut, Site::kMixer1ScanOut, Site::kMixer2ScanOut},
                                    {"gate", Site::kMambaGate, Site::kMixer1Gate, Site::kMixer2Gate},
                                    {"dt", Site::kScanDelta, Site::kMixer1ScanDelta, Site::kMixer2ScanDelta}};

class Mamba2Golden : public testing::TestWithParam<const char*> {};

TEST_P(Mamba2Golden, EverySiteOfAMixer) {
  Model model(GoldenFolder(GetParam()));
  const Safetensors expected(GoldenFolder(GetParam()) / "expected.safetensors");
  Recorder recorder(21);
  SiteVisitor* const visitors[] = {&recorder};
  model.Forward(GoldenBatch(GetParam()), visitors);
  int compared = 0;
  const auto compare = [&](Site site, int layer, const std::string& tensor) {
    EXPECT_TRUE(AllNear(recorder.values.at({site, layer}), ValuesOf<float>(expected, tensor), kTolerance)) << tensor;
    ++compared;
  };
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const bool pair = model.config().Kind(layer) == LayerKind::kMambaPair;
    for (const GoldenSite& site : kGoldenSites) {
      const std::string name = Formatted("{}.{}", site.tensor, layer);
      if (!pair) compare(site.plain, layer, name);
      if (pair) compare(site.first, layer, name + ".0"), compare(site.second, layer, name + ".1");
    }
    if (!pair) continue;
    compare(Site::kMixer1Out, layer, Formatted("mixer_out.{}.0", layer));
    compare(Site::kMixer2Out, layer, Formatted("mixer_out.{}.1", layer));
    compare(Site::kMixerDifference, layer, Formatted("difference.{}", layer));
    EXPECT_TRUE(AllNear(model.layers()[static_cast<size_t>(layer)].lambda,
                        ValuesOf<float>(expected, Formatted("lambda.{}", layer)), 2e-6));
  }
  EXPECT_GE(compared, 3 * model.config().layers);
}

INSTANTIATE_TEST_SUITE_P(Golden, Mamba2Golden,
                         testing::Values("mamba2", "mamba2-groups", "diffmamba2", "diffmamba2-all"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// What config.json says of the layers does not count; a pair has heads of half as many channels.
TEST(Mamba2Test, TensorsDecideOverKeys) {
  EditedCheckpoint checkpoint(GoldenFolder("diffmamba2"));
  const TemporaryFolder folder;
  checkpoint.config.erase("diffmamba");
  checkpoint.Write(folder / "none");
  Model golden(GoldenFolder("diffmamba2")), none(folder / "none");
  EXPECT_THAT(KindsOf(none.config()), ElementsAre("mamba pair", "mamba", "mamba pair", "mamba"));
  EXPECT_EQ(none.config().family, "diffmamba2");
  EXPECT_EQ(LogitsOf(none, GoldenBatch("diffmamba2")), LogitsOf(golden, GoldenBatch("diffmamba2")));
  checkpoint.config["expand"] = 4;
  checkpoint.config["num_heads"] = 8;
  checkpoint.Write(folder / "four");
  EXPECT_THAT(
      Call([&] { Model(folder / "four"); }),
      ThrowsMessage<Error>(HasSubstr("got 12 and 4, expected an even number and 2, as layer 0 has two mixers")));
}

TEST(Mamba2Test, MissingTensorsAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"backbone.layers.1.mixer.A_log", "backbone.layers.0.mixer_2.in_proj.weight",
                           "backbone.layers.2.lambda_q1", "backbone.layers.2.mixer_2.conv1d.bias"}) {
    EditedCheckpoint checkpoint(GoldenFolder("diffmamba2"));
    checkpoint.tensors.erase(name);
    checkpoint.Write(folder / "m");
    EXPECT_THAT(Call([&] { Model(folder / "m"); }), ThrowsMessage<Error>(AllOf(HasSubstr(name), HasSubstr("missing"))));
  }
}

TEST(Mamba2Test, RandomCheckpointsAreWhole) {
  const TemporaryFolder folder;
  for (const nlohmann::json& json : {Small(), With(Small(), "model_type", "diffmamba2")}) {
    ModelConfig asked = Parsed(json);
    WriteRandomCheckpoint(folder / asked.family, asked, WeightType::kBf16, 3);
    Model model(folder / asked.family);
    EXPECT_EQ(model.config().scan_groups, 2);
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
    for (const float logit : LogitsOf(model, batch)) EXPECT_TRUE(std::isfinite(logit));
  }
}

// A branch is the sequence that it continues and itself; a prompt in two passes is the prompt: sums in another order.
TEST(Mamba2Test, StatesFlowIntoBranchesAndLaterPasses) {
  for (const char* name : {"mamba2-groups", "diffmamba2"}) {
    Model model(GoldenFolder(name));
    const std::vector<std::vector<int32_t>> rows = GoldenRows(name);
    const auto V = static_cast<ptrdiff_t>(model.config().vocabulary);
    TokenBatch whole, branched, begun, after;
    whole.Add(0, rows[0]);
    const std::vector<float> expected = LogitsOf(model, whole);
    branched.Add(0, std::span(rows[0]).first(12));
    branched.AddBranch(std::span(rows[0]).subspan(12));
    EXPECT_TRUE(AllNear(LogitsOf(model, branched), expected, 2e-6)) << name;
    SequenceCache cache(model.config(), {});
    begun.AddAfter(cache, 0, std::span(rows[0]).first(12));
    model.Forward(begun);
    EXPECT_EQ(cache.tokens(), 12);
    after.AddAfter(cache, 0, std::span(rows[0]).subspan(12));
    const std::vector<float> rest = LogitsOf(model, after);
    EXPECT_EQ(cache.tokens(), 21);
    EXPECT_TRUE(AllNear(rest, std::span(expected).subspan(static_cast<size_t>(12 * V)), 2e-6)) << name;
  }
}

// Two mixers of half as many channels keep as many states as one, and B and C of both before the convolutions.
TEST(Mamba2Test, BytesOfStates) {
  const SequenceCache plain(LoadConfig(GoldenFolder("mamba2")), {}), pairs(LoadConfig(GoldenFolder("diffmamba2")), {});
  EXPECT_EQ(plain.Bytes(), 3 * sizeof(float) * (48 * 10 + 3 * (48 + 2 * 10)));
  EXPECT_EQ(pairs.Bytes(), sizeof(float) * (2 * (48 * 10 + 3 * (48 + 20)) + 4 * (24 * 10 + 3 * (24 + 20))));
}

std::vector<float> Under(Model& model, const char* golden, const std::string& plan, Carrying carrying) {
  PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(golden), visitors);
}

// Every site that a model has changes what is computed, and no other site is taken.
TEST(Mamba2Test, PlansReachEverySiteAndNoOther) {
  for (const char* name : {"mamba2", "diffmamba2"}) {
    Model model(GoldenFolder(name));
    const ModelSites sites = ModelSitesOf(model);
    const std::vector<float> exact = Under(model, name, "", Carrying::kSimulated);
    int scans = 0;
    for (const SiteInfo& info : kSites) {
      const std::string scale =
          ClassOf(info.site).InnerBlock(4).kind == Granularity::Kind::kGroup && !IsWeight(info.site) ? "token"
                                                                                                     : "channel";
      const std::string rule = std::string(info.name) + "=int8/" + scale;
      if (!sites.Has(info.site)) {
        if (info.of == SiteOf::kAttention || info.of == SiteOf::kFeedForward || info.of == SiteOf::kMambaRank ||
            info.of == SiteOf::kMemoryUnit) {
          EXPECT_THROW(CheckRule(Plan::Parse(rule).rules().front(), sites), UsageError) << rule;
        }
        continue;
      }
      EXPECT_TRUE(info.of == SiteOf::kModel || info.of == SiteOf::kLayer || IsOfScan(info.site)) << info.name;
      if (IsCache(info.site)) continue;
      scans += IsOfScan(info.site);
      const std::vector<float> rounded = Under(model, name, rule, Carrying::kSimulated);
      EXPECT_NE(rounded, exact) << rule;
      const bool whole_state = info.name.ends_with("scan.state");  // one scale for all of it
      EXPECT_TRUE(AllNear(rounded, exact, whole_state ? 1 : 0.5)) << rule;
    }
    EXPECT_EQ(scans, name == std::string("mamba2") ? 11 : 36) << name;
    EXPECT_THAT(Call([&] { Under(model, name, "probs=u8/row", Carrying::kSimulated); }),
                ThrowsMessage<UsageError>(HasSubstr("which has none")));
    EXPECT_THAT(Call([&] { Under(model, name, "mamba.x_proj.w=int8/channel", Carrying::kSimulated); }),
                ThrowsMessage<UsageError>(HasSubstr("which has none")));
    EXPECT_THAT(Call([&] { Under(model, name, "cache_k=int8/token", Carrying::kSimulated); }),
                ThrowsMessage<UsageError>(HasSubstr("which has none")));
  }
}

TEST(Mamba2Test, QuantizedByEveryMethod) {
  for (const char* name : {"mamba2", "diffmamba2"}) {
    const TemporaryFolder folder;
    Model stored(GoldenFolder(name));
    const std::vector<float> exact = LogitsOf(stored, GoldenBatch(name));
    Quantize({GoldenFolder(name), Plan::Parse("weights=int4/channel"), folder / "q.h5"}, {});
    Model rounded(folder / "q.h5");
    EXPECT_EQ(LogitsOf(rounded, GoldenBatch(name)), Under(stored, name, "weights=int4/channel", Carrying::kSimulated));
    for (const char* method : {"rtn", "gptq", "gptaq", "smoothquant:0.5+gptq", "awq+gptq"}) {
      Quantize(Calibrated(method, name, "weights=int8/channel", folder), {});
      EXPECT_EQ(QuantizedCheckpoint(folder / "g.h5").provenance().method, method);
      Model quantized(folder / "g.h5");
      const std::vector<float> logits = LogitsOf(quantized, GoldenBatch(name));
      double lost = 0, all = 0;
      for (size_t i = 0; i < exact.size(); ++i) lost += std::pow(logits[i] - exact[i], 2), all += std::pow(exact[i], 2);
      EXPECT_LT(lost, 0.15 * 0.15 * all) << name << ' ' << method;
      EXPECT_GT(lost, 0) << name << ' ' << method;
    }
  }
}

}  // namespace
}  // namespace tare::mamba2_test
