// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/layer_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/plan_run.h"
#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/site_recorder.h"

namespace tare::layer_attention_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<ScoredSequence> Sequences() { return {{{1, 5, 9, 2, 7, 3, 8, 30, 12, 4, 19}}, {{1, 4, 4, 6, 11}}}; }

// A site's rows of both sequences, [R][heads][width].
std::vector<float> RowsOf(const Recorder& seen, Site site, int layer) {
  std::map<std::pair<int64_t, int64_t>, std::map<int, Row>> rows;
  for (const auto& [key, of_key] : seen.sites) {
    if (key.site != site || key.layer != layer) continue;
    for (const auto& [place, row] : of_key.rows) rows[place][*key.head] = row;
  }
  std::vector<float> all;
  for (const auto& [place, heads] : rows) {
    for (const auto& [head, row] : heads) all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

struct Layer {
  std::vector<float> q, k, v, out;
  std::vector<OutputHead> table;
  std::vector<AttentionSequence> sequences{{.index = 0, .first_row = 0, .prefix = 11, .branches = {}},
                                           {.index = 1, .first_row = 11, .prefix = 5, .branches = {}}};
  AttentionProblem problem;

  Layer(const Model& model, const Recorder& seen, int layer) {
    const ModelConfig& c = model.config();
    const LayerWeights& weights = model.layers()[static_cast<size_t>(layer)];
    q = RowsOf(seen, Site::kQ, layer), k = RowsOf(seen, Site::kK, layer), v = RowsOf(seen, Site::kV, layer);
    table = weights.heads;
    const int width = table.front().VSlices() * c.head_dim;
    out.resize(16 * table.size() * static_cast<size_t>(width));
    problem = {.q = DenseHeads<const float>(q.data(), 16, c.heads, c.head_dim),
               .k = DenseHeads<const float>(k.data(), 16, c.kv_heads, c.head_dim),
               .v = DenseHeads<const float>(v.data(), 16, c.kv_heads, c.head_dim),
               .heads = table,
               .lambda = LambdaOf(weights),
               .mask = weights.mask,
               .scale = c.attention_scale.value_or(1.0f / std::sqrt(static_cast<float>(c.head_dim))),
               .out = DenseHeads(out.data(), 16, static_cast<int>(table.size()), width)};
  }
};

// Looks at no map: a pass that shows one orders its sums otherwise.
struct HeadRecorder : Recorder {
  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kQ || site == Site::kK || site == Site::kV || site == Site::kHeadOut;
  }
};

// What a pass shows before a plan's visitors, and after them.
struct Pass {
  HeadRecorder before, after;
  Pass(Model& model, PlanRun& run) {
    const SiteVisitors plans = run.Begin(model);
    std::vector<SiteVisitor*> visitors{&before};
    visitors.insert(visitors.end(), plans.begin(), plans.end());
    visitors.push_back(&after);
    ForwardAll(model, visitors, Sequences(), {}, [](const TokenBatch&) {});
  }
};

TEST(LayerAttention, IsTheModelsBitForBit) {
  for (const char* name : {"llama-gqa", "diffllama-gqa", "mistral"}) {
    Model model(GoldenFolder(name));
    for (const char* plan : {"f32", "attn_logits=int4/row", "attn_logits=int4/tensor+sink",
                             "q=int4/head,k=int4/token+smooth", "probs=u4/block64,v=int4/block64.channel",
                             "head_out=int4/token,v[h0]=int4/channel", "attn_logits[m1]=int4/row"}) {
      const bool of_maps = std::string_view(plan).contains("m1");
      if (of_maps && Maps(model.config()) == 1) continue;
      PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
      const Pass pass(model, run);
      for (int layer = 0; layer < model.config().layers; ++layer) {
        Layer alone(model, pass.before, layer);
        SimulatedAttention captured(Plan::Parse(plan), AttentionSites(alone.problem, {0, 1, 2}));
        captured.Run(alone.problem, alone.sequences, layer);
        EXPECT_EQ(alone.out, RowsOf(pass.after, Site::kHeadOut, layer)) << name << " " << plan << " " << layer;
      }
    }
  }
}

TEST(LayerAttention, RefusesWhatItCannotDo) {
  Model model(GoldenFolder("llama-gqa"));
  PlanRun exact({}, Carrying::kSimulated, ModelSitesOf(model));
  const Pass pass(model, exact);
  Layer layer(model, pass.before, 0);
  const ModelSites sites = AttentionSites(layer.problem, {0});
  const auto refuses = [&](const char* plan, const char* message) {
    EXPECT_THAT(Call([&] { SimulatedAttention(Plan::Parse(plan), sites).Run(layer.problem, layer.sequences, 0); }),
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  refuses("layer_out=int8/token", "got layer_out, expected a site of this captured model");
  refuses("difference=int8/row", "whose heads have one map; try probs");
  refuses("cache_k=int8/token", "cache_k");
  refuses("k=int8/token+prerotary", "none for captured keys, which have their rotary positions");
  refuses("q=int8/head+static", "+static");
  refuses("q[h9]=int8/token", "got head 9 of q, expected 0 to 5");
  layer.problem.q.tokens = layer.problem.out.tokens = 4;
  refuses("attn_logits=int4/row", "got 4 queries over 16 keys");
}

TEST(HeadsNamed, FitsTheNumbersOfHeads) {
  EXPECT_EQ(HeadsNamed("diffllama", 4, 4, 4).size(), 2u);
  EXPECT_EQ(HeadsNamed("v1", 4, 4, 2)[1].k2, 3);
  EXPECT_EQ(HeadsNamed("v2", 4, 2, 2)[1].k2, 1);
  const auto refuses = [](const char* name, int q, int k, int v, const char* text) {
    EXPECT_THAT(Call([&] { HeadsNamed(name, q, k, v); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  refuses("v3", 4, 4, 4, "heads: got 'v3', expected standard, v1, v2, diffllama");
  refuses("v1", 4, 4, 4, "got 4 heads of k and 4 of v, expected 2 of k");
  refuses("diffllama", 3, 3, 3, "got 3 heads of q, expected pairs");
}

}  // namespace
}  // namespace tare::layer_attention_test
