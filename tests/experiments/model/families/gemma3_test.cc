// SPDX-License-Identifier: Apache-2.0
// Keys, defaults and both spellings of the positions; parity_test.cc compares the forward pass with transformers, and
// quantize_test.cc tests smoothing of norms that multiply by 1 + w.
#include "experiments/model/families/table.h"

#include "tests/support/family_config.h"

namespace tare::gemma3_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Gemma3Test, DefaultsAreTransformers) {
  json config = With(SmallConfig("gemma3_text"), "num_hidden_layers", 7);
  config.erase("rms_norm_eps");
  const ModelConfig c = Parsed(config);
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.norm_eps, 1e-6f);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_EQ(c.attention_scale, 0.0625f);
  EXPECT_FALSE(c.logit_cap);
  EXPECT_FLOAT_EQ(c.embedding_scale * c.embedding_scale, 48);
  EXPECT_THAT(c.windows, ElementsAre(4096, 4096, 4096, 4096, 4096, 0, 4096));
  EXPECT_EQ(c.rotary.theta, 1e6);
  EXPECT_EQ(c.window_rotary->theta, 1e4);
}

TEST(Gemma3Test, OldAndNewSpellingOfPositionsAreTheSame) {
  json old = With(With(SmallConfig("gemma3_text"), "rope_theta", 5e5), "rope_local_base_freq", 2e4);
  old["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  old["sliding_window"] = 512;
  old["sliding_window_pattern"] = 2;
  json modern = With(SmallConfig("gemma3_text"), "sliding_window", 512);
  modern["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  modern["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  for (const ModelConfig& c : {Parsed(old), Parsed(modern)}) {
    EXPECT_THAT(c.windows, ElementsAre(512, 0, 512, 0));
    EXPECT_EQ(c.rotary.type, RotaryConfig::Type::kLinear);
    EXPECT_EQ(c.rotary.factor, 8);
    EXPECT_EQ(c.rotary.theta, 5e5);
    EXPECT_EQ(c.window_rotary->type, RotaryConfig::Type::kDefault);
    EXPECT_EQ(c.window_rotary->theta, 2e4);
  }
}

// transformers gives such a model sliding layers too, and then no mask for them.
TEST(Gemma3Test, LayersThatSlideNeedAWindow) {
  const json none = With(SmallConfig("gemma3_text"), "sliding_window", nullptr);
  ExpectConfigRefused(none, "sliding_window", "got null, expected a number of keys, as sliding_window_pattern 6");
  ExpectConfigRefused(With(none, "sliding_window_pattern", 2), "sliding_window", "got null");
  EXPECT_THAT(Parsed(With(none, "sliding_window_pattern", 1)).windows, IsEmpty());
  json types = With(none, "layer_types", std::vector<std::string>(4, "full_attention"));
  EXPECT_THAT(Parsed(types).windows, IsEmpty());
  types["layer_types"][2] = "sliding_attention";
  ExpectConfigRefused(types, "layer_types", "sliding_attention in layer 2");
}

TEST(Gemma3Test, UnsupportedFeaturesAreRefused) {
  const json small = SmallConfig("gemma3_text");
  ExpectConfigRefused(With(small, "rope_scaling", {{"type", "linear"}, {"factor", 8.0}}), "rope_scaling: type",
                      "not supported");
  ExpectConfigRefused(With(small, "hidden_activation", "prelu"), "hidden_activation", "'prelu'");
  ExpectConfigRefused(With(small, "final_logit_softcapping", 0), "final_logit_softcapping", "positive");
  ExpectConfigRefused(With(small, "rope_parameters", {{"rope_type", "default"}}), "rope_parameters", "rope_type");
  ExpectConfigRefused(With(small, "rope_scaling", {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}}}),
                      "rope_scaling", "full_attention");
}

}  // namespace
}  // namespace tare::gemma3_test
