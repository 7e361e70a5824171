// SPDX-License-Identifier: Apache-2.0
// A new family is one record and one source, here toy_family.h: nothing else in the tree knows it, and every command's
// entry point accepts its checkpoints. The first test compares its forward pass with a plain one in double.
#include "tests/experiments/toy_family.h"
#include "experiments/model/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "experiments/bench/forward_bench.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/observe/full_observer.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/observe/statistics_report.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/studies/sweep/sweep.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "kernels/attention/heads.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/ids.h"

namespace tare::toy_family_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ToyFamilyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { AddFamily(toy::kFamily); }

  ToyFamilyTest() {
    WriteRandomCheckpoint(model_, Config(), WeightType::kF32, 5);
    PutManyIds(ids_, 3, 40);
  }

  static ModelConfig Config() {
    return {.family = "toy",
            .vocabulary = 91,
            .hidden = 32,
            .ffn = 48,
            .layers = 2,
            .heads = 6,
            .kv_heads = 2,
            .head_dim = 8,
            .norm_eps = 1e-5f,
            .max_positions = 64};
  }
  std::vector<ScoredSequence> Sequences(const Model& model) const {
    return CutSequences(LoadTokenInput(ids_, model_, 91), model.config(), {.window = 40});
  }

  TemporaryFolder folder_;
  const std::filesystem::path model_ = folder_ / "toy", ids_ = folder_ / "ids.safetensors";
};

using Rows = std::vector<std::vector<double>>;

Rows Times(const Rows& x, const LinearWeights& linear) {
  const WeightMatrix& w = linear.stored();
  Rows y(x.size(), std::vector<double>(static_cast<size_t>(w.out)));
  std::vector<float> row(static_cast<size_t>(w.in));
  for (int64_t o = 0; o < w.out; ++o) {
    RowAsFloat(w, o, row.data());
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < row.size(); ++i) y[t][static_cast<size_t>(o)] += x[t][i] * row[i];
    }
  }
  return y;
}

void AddNormed(const Rows& delta, const std::vector<float>& gain, Rows& x) {
  for (size_t t = 0; t < x.size(); ++t) {
    double squares = 0;
    for (const double d : delta[t]) squares += d * d;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(gain.size()) + 1e-5);
    for (size_t i = 0; i < gain.size(); ++i) x[t][i] += delta[t][i] * scale * gain[i];
  }
}

std::vector<float> Floats(const Rows& x) {
  std::vector<float> floats;
  for (const auto& row : x) floats.insert(floats.end(), row.begin(), row.end());
  return floats;
}

Rows PlainAttention(const Rows& x, const LayerWeights& w, const ModelConfig& c) {
  const std::vector<float> q = Floats(Times(x, w.q)), k = Floats(Times(x, w.k)), v = Floats(Times(x, w.v));
  const auto T = std::ssize(x);
  const std::vector<OutputHead> heads{{.q1 = 0, .k1 = 0, .q2 = 1, .k2 = 0, .v = {0, kNoMap}},
                                      {.q1 = 2, .k1 = 0, .q2 = 3, .k2 = 1, .v = {0, kNoMap}},
                                      {.q1 = 4, .k1 = 1, .q2 = 5, .k2 = 1, .v = {1, kNoMap}}};
  std::vector<float> out(static_cast<size_t>(T) * 24);
  const std::vector<float>& lambda = w.vectors.at(toy::kLambda);
  const AttentionProblem problem{.q = DenseHeads<const float>(q.data(), T, 6, c.head_dim),
                                 .k = DenseHeads<const float>(k.data(), T, 2, c.head_dim),
                                 .v = DenseHeads<const float>(v.data(), T, 2, c.head_dim),
                                 .heads = heads,
                                 .lambda = {.data = lambda.data(), .head_stride = 1},
                                 .mask = {Mask::Kind::kWindow, 5},
                                 .scale = 1 / std::sqrt(8.0f),
                                 .out = DenseHeads(out.data(), T, 3, c.head_dim)};
  const std::vector<double> seen = ReferenceAttentionDouble(problem);
  Rows attended;
  for (int64_t t = 0; t < T; ++t) attended.emplace_back(seen.begin() + t * 24, seen.begin() + (t + 1) * 24);
  return Times(attended, w.o);
}

// Two layers of f32 sums of at most 48 products, their inputs rounded between: 1e-4 of the largest value is far above
// that, and far below what another norm, mask, lambda or pairing of heads would change (the second expectation).
TEST_F(ToyFamilyTest, TheForwardPassIsThePlainOne) {
  Model model(model_);
  Stream stream;
  TokenBatch batch;
  batch.Add(0, Sequences(model)[1].tokens);
  model.EmbedInto(batch, stream);
  const float* const begin = stream.x.data();
  Rows x;
  for (size_t t = 0; t < 40; ++t) x.emplace_back(begin + t * 32, begin + t * 32 + 32);
  for (int layer = 0; layer < 2; ++layer) {
    model.RunLayer(batch, layer, stream);
    const LayerWeights& w = model.layers()[static_cast<size_t>(layer)];
    AddNormed(PlainAttention(x, w, model.config()), w.vectors.at(toy::kAfterMixing), x);
    const Rows gate = Times(x, w.gate);
    Rows wide = Times(x, w.up);
    for (size_t t = 0; t < wide.size(); ++t) {
      for (size_t i = 0; i < wide[t].size(); ++i) wide[t][i] *= gate[t][i] / (1 + std::exp(-gate[t][i]));
    }
    AddNormed(Times(wide, w.down), w.vectors.at(toy::kAfterFfn), x);
  }
  double largest = 0, error = 0;
  for (size_t t = 0; t < 40; ++t) {
    for (size_t i = 0; i < 32; ++i) {
      largest = std::max(largest, std::abs(x[t][i]));
      error = std::max(error, std::abs(x[t][i] - stream.x[t * 32 + i]));
    }
  }
  EXPECT_LT(error, 1e-4 * largest);
}

// What tare inspect shows, and tare bench forward counts.
TEST_F(ToyFamilyTest, InspectAndBench) {
  Model model(model_);
  EXPECT_EQ(Maps(model.config()), 2);
  EXPECT_EQ(HeadTable(model.config()).size(), 3u);
  for (const LayerWeights& layer : model.layers()) {
    EXPECT_EQ(layer.lambda.size(), 3u);
    EXPECT_FALSE(layer.lambda_init.has_value());
  }
  EXPECT_TRUE(model.files().Has("floor-1.mix/offers.weight"));
  const double rows = 40, linear = 32 * 48 + 2 * 32 * 16 + 24 * 32 + 3 * 32 * 48, pairs = 40 * 41 / 2.0;
  EXPECT_EQ(ForwardFlop(model.config(), 1, 40),
            2 * rows * (2 * linear + 32 * 91) + pairs * 2 * 3 * 2 * (2 * 8 + 2 * 8));
}

TEST_F(ToyFamilyTest, Stats) {
  Model model(model_);
  const TokenInput input = LoadTokenInput(ids_, model_, 91);
  const StatisticsSet set =
      CollectStatistics(model, input, Sequences(model), {.formats = "int8/row"}, "1", folder_ / "s.h5", {});
  EXPECT_TRUE(set.lambda.empty());  // it has no one lambda a layer
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 6; ++head) {
      const SiteStatistics& probs = set.sites.at({Site::kProbs, layer, head, head % 2 + 1});
      EXPECT_EQ(probs.Total().values, 3u * (1 + 2 + 3 + 4 + 36 * 5)) << head;  // under the window
    }
    EXPECT_TRUE(set.sites.contains({Site::kDifference, layer, 2}));
    EXPECT_FALSE(set.sites.contains({Site::kDifference, layer, 3}));
    EXPECT_TRUE(set.sites.contains({Site::kK, layer, 1, 2}) || set.sites.contains({Site::kK, layer, 1}));
    EXPECT_TRUE(set.sites.contains({Site::kUpProjW, layer}));
  }
  FullObserver observer = OutlierObserver(model.config());
  SiteVisitor* const visitors[] = {&observer};
  TokenBatch batch;
  batch.Add(0, Sequences(model)[0].tokens);
  model.Forward(batch, visitors);
  StatisticsSet outliers;
  outliers.MergeSites(observer.Take());
  const auto json = OutlierJson(outliers, model.config(), "toy");
  std::vector<int> maps;
  for (const auto& head : json["layers"][0]["heads"]) maps.push_back(head["map"].get<int>());
  EXPECT_THAT(maps, ElementsAre(1, 2, 1, 2, 1, 2));
}

TEST_F(ToyFamilyTest, EvalSimulatedAndExecuted) {
  Model model(model_);
  const std::vector<Task> tasks = ReadTasks(ParseTasks("perplexity=" + ids_.string()), model, {});
  const auto nll = [&](const char* plan, Carrying carrying) {
    PlanRun run(Plan::Parse(plan), carrying, ModelSitesOf(model));
    return tasks[0].run(model, run, {}).figures.at("nll").get<double>();
  };
  const double exact = nll("f32", Carrying::kSimulated);
  const char* attention = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/token";
  for (const double rounded : {nll(attention, Carrying::kSimulated), nll("int8", Carrying::kExecuted)}) {
    EXPECT_NEAR(rounded, exact, 0.05);
    EXPECT_GT(std::abs(rounded - exact), 1e-6);  // codes of 8 bits, not f32
  }
  EXPECT_NE(nll("attn_logits[h1,m2]=int4/row", Carrying::kSimulated), exact);
  EXPECT_THAT(Call([&] { nll("attn_logits[h1,m1]=int4/row", Carrying::kSimulated); }),  // head 1 is of map 2
              ThrowsMessage<Error>(HasSubstr("got a selector that fits no place of this toy model")));
  EXPECT_THAT(Call([&] { nll("difference[h3]=int8/row", Carrying::kSimulated); }),
              ThrowsMessage<Error>(HasSubstr("got head 3 of difference, expected 0 to 2")));
}

TEST_F(ToyFamilyTest, Quantize) {
  const Plan plan = Plan::Parse("weights=int8/channel");
  const auto quantize = [&](const char* method) {
    Quantize(
        {.model = model_, .plan = plan, .out = folder_ / "q.h5", .method = ParseMethod(method), .calibration = ids_},
        {});
  };
  for (const char* method : {"rtn", "gptq", "gptaq+quantease"}) {
    quantize(method);
    const Model model(folder_ / "q.h5");
    EXPECT_NE(model.files().FindQuantized("floor-0.ffn/widens.weight"), nullptr) << method;
    EXPECT_EQ(model.layers()[1].lambda.size(), 3u);
  }
  EXPECT_THAT(Call([&] { quantize("hadamard+rtn"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("hadamard: got a toy model"), HasSubstr("try another method"))));
  EXPECT_THAT(Call([&] { quantize("smoothquant:0.5+rtn"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("smoothquant: got a toy model"), HasSubstr("try another method"))));
}

TEST_F(ToyFamilyTest, Sweep) {
  const SweepOptions options{.models = {model_},
                             .question = {.bits = {16, 4}, .granularities = {"row", "tensor"}},
                             .tasks = ParseTasks("perplexity=" + ids_.string()),
                             .folder = folder_ / "sweep"};
  const std::vector<SweepCell> cells = RunSweep(options, [](const std::string&, int64_t) { return Progress(); });
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].model, "toy");
  EXPECT_NE(cells[0].result, cells[1].result);
}

TEST_F(ToyFamilyTest, SitesItLacksAreRefused) {
  EXPECT_THAT(Call([] {
                ParseConfig(R"({"model_type": "toy", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "rms_norm_eps": 1e-5, "mlp_bias": true})",
                            "c");
              }),
              ThrowsMessage<Error>(HasSubstr("mlp_bias: true is not supported")));
}

}  // namespace
}  // namespace tare::toy_family_test
