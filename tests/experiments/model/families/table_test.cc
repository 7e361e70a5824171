// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/model/config/config.h"
#include "experiments/model/config/family.h"
#include "experiments/model/families/llama.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::families_table_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FamilyTableTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(&FamilyNamed("llama", "here"), &kLlama);
  EXPECT_EQ(&FamilyNamed("Motif", "here"), &FamilyNamed("motif", "here"));  // as its published checkpoints write it
  EXPECT_THAT(Call([] { FamilyNamed("gpt2", "here"); }),
              ThrowsMessage<Error>(HasSubstr("here: got 'gpt2', expected llama")));
}

}  // namespace
}  // namespace tare::families_table_test

namespace tare::records_test {
namespace {

TEST(FamilyRecords, AChangedTableKeepsTheOtherPlaces) {
  constexpr auto kChanged = Changed(kLlamaLinear, [](auto& places) { At(places, Site::kOProjW).tensor = "other"; });
  for (size_t i = 0; i < kChanged.size(); ++i) {
    EXPECT_EQ(kChanged[i].weight, kLlamaLinear[i].weight);
    EXPECT_EQ(kChanged[i].tensor, kLlamaLinear[i].weight == Site::kOProjW ? "other" : kLlamaLinear[i].tensor);
  }
}

TEST(FamilyRecords, JoinedTablesKeepTheirOrder) {
  constexpr auto kJoined = Joined(kLlamaVectors, kLambdaVectors);
  ASSERT_EQ(kJoined.size(), 6);
  EXPECT_EQ(kJoined.front().tensor, kInputNorm);
  EXPECT_EQ(kJoined[1].tensor, kPostAttentionNorm);
  EXPECT_EQ(kJoined[2].tensor, kLambdaNames.q1);
  EXPECT_EQ(kJoined.back().tensor, kLambdaNames.k2);
}

TEST(FamilyRecords, AChangedFamilyKeepsTheRest) {
  constexpr Family kOther = Changed(kLlama, [](Family& f) { f.name = "other"; });
  EXPECT_EQ(kOther.name, "other");
  EXPECT_EQ(kLlama.name, "llama");
  EXPECT_EQ(kOther.forward, kLlama.forward);
}

}  // namespace
}  // namespace tare::records_test

namespace tare::defaults_test {
namespace {

using Json = nlohmann::json;

Json Classes() { return ReadJson(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/config-keys/defaults.json"); }

double ThetaOf(const Json& rope) {
  return rope.contains("full_attention") ? rope["full_attention"]["rope_theta"].get<double>()
                                         : rope.value("rope_theta", 1e4);
}

// A configuration that says nothing but its model_type is that of the family's class in transformers 5.12.1, as
// tests/data/config-keys/defaults.py printed it.
TEST(FamilyDefaults, AreThoseOfTheClasses) {
  const Json classes = Classes();
  EXPECT_EQ(classes.size(), std::size(kFamilyDefaults));
  for (const auto& [family, expected] : classes.items()) {
    SCOPED_TRACE(family);
    const ModelConfig c = ParseConfig(Json{{"model_type", family}}.dump(), "c.json");
    const auto is = [&](const char* key, const auto& value) {
      if (expected.contains(key) && !expected[key].is_null()) {
        EXPECT_EQ(expected[key], value) << key;
      }
    };
    const bool experts = family == "qwen3_moe";
    is("vocab_size", c.vocabulary), is("hidden_size", c.hidden), is("num_hidden_layers", c.layers);
    is("num_attention_heads", c.heads), is("num_key_value_heads", c.kv_heads), is("head_dim", c.head_dim);
    is(experts ? "moe_intermediate_size" : "intermediate_size", c.ffn);
    if (!c.SeesImages()) is("max_position_embeddings", c.max_positions);
    is("tie_word_embeddings", c.tied_embeddings);
    is("num_local_experts", c.experts), is("num_experts_per_tok", c.chosen_experts);
    is("norm_topk_prob", c.shares_sum);
    if (family != "qwen2") is("attention_bias", c.attention_bias);
    const double eps = expected.contains("rms_norm_eps") ? expected["rms_norm_eps"] : expected["layer_norm_eps"];
    EXPECT_EQ(c.norm_eps, static_cast<float>(eps));
    EXPECT_EQ(c.rotary.theta, ThetaOf(expected["rope_parameters"]));
    std::string layers;
    for (int layer = 0; layer < c.layers; ++layer) layers += c.Window(layer) > 0 ? 's' : 'f';
    is("layer_types", layers);
    for (int layer = 0; layer < c.layers; ++layer) {
      if (c.Window(layer) > 0) is("sliding_window", c.Window(layer));
    }
  }
}

}  // namespace
}  // namespace tare::defaults_test
