// SPDX-License-Identifier: Apache-2.0
// Which layers have rotary positions, and windows; caches of keys before them. parity_test.cc compares the forward pass
// with transformers.
#include "experiments/model/families/table.h"

#include "experiments/model/model.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::smollm3_test {
namespace {

using testing::ElementsAre;

std::vector<bool> Rotating(const nlohmann::json& json) {
  const ModelConfig c = Parsed(json);
  std::vector<bool> rotates;
  for (int layer = 0; layer < c.layers; ++layer) rotates.push_back(c.Rotates(layer));
  return rotates;
}

TEST(SmolLm3Test, LayersWithoutRotaryPositions) {
  const nlohmann::json small = SmallConfig("smollm3"), null;
  EXPECT_THAT(Rotating(small), ElementsAre(true, true, true, false));
  EXPECT_THAT(Rotating(With(small, "no_rope_layer_interval", 2)), ElementsAre(true, false, true, false));
  EXPECT_THAT(Rotating(With(With(small, "no_rope_layers", {0, 1, 1, 0, 1}), "no_rope_layer_interval", 2)),
              ElementsAre(false, true, true, false));
  ExpectConfigRefused(With(small, "no_rope_layers", {0, 1, 1}), "no_rope_layers",
                      "got 3 layers, expected num_hidden_layers 4");
  ExpectConfigRefused(With(small, "no_rope_layers", {0, 1, 2, 1}), "no_rope_layers", "got 2 in layer 2");
  ExpectConfigRefused(With(small, "no_rope_layers", {0, 1, null, 1}), "no_rope_layers", "got null in layer 2");
  ExpectConfigRefused(With(small, "no_rope_layers", 4), "no_rope_layers", "expected a list of integers");
  ExpectConfigRefused(With(small, "no_rope_layer_interval", 0), "no_rope_layer_interval", "got 0");
}

TEST(SmolLm3Test, DefaultsAndWindows) {
  const nlohmann::json small = SmallConfig("smollm3");
  const ModelConfig c = Parsed(small);
  EXPECT_TRUE(c.tied_embeddings && c.windows.empty());
  EXPECT_EQ(c.rotary.theta, 2e6);
  EXPECT_EQ(c.max_positions, 32768);
  const nlohmann::json window = With(small, "sliding_window", 7);
  EXPECT_TRUE(Parsed(window).windows.empty());
  const nlohmann::json slides = With(window, "use_sliding_window", true);
  EXPECT_THAT(Parsed(slides).windows, ElementsAre(0, 0, 0, 7));
  EXPECT_THAT(Parsed(With(slides, "layer_types", nlohmann::json(4, "sliding_attention"))).windows,
              ElementsAre(7, 7, 7, 7));
}

// Rounded keys are as near with rotary positions turned back as with them; turned by mistake they are far off.
TEST(SmolLm3Test, KeysBeforeRotaryPositionsInACache) {
  for (const char* name : {"smollm3", "olmo3", "ministral"}) {
    Model model(GoldenFolder(name));
    const std::vector<int32_t> tokens = GoldenRows(name).front();
    const auto logits = [&](const char* plan) {
      SequenceCache cache(model.config(), ParseCachePlan(plan));
      TokenBatch batch;
      batch.AddAfter(cache, 0, tokens);
      return LogitsOf(model, batch);
    };
    const std::vector<float> exact = logits("");
    EXPECT_TRUE(AllNear(logits("cache_k=int8/token+prerotary"), exact, 0.03)) << name;
    EXPECT_NE(logits("cache_k=int8/token+prerotary"), logits("cache_k=int8/token")) << name;
  }
}

}  // namespace
}  // namespace tare::smollm3_test
