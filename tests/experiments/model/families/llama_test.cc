// SPDX-License-Identifier: Apache-2.0
// llama and its relatives; parity_test.cc compares their forward passes with transformers.
//   llama: which heads belong together; granite: the keys of its multipliers
//   smollm3: which layers have rotary positions and windows, and caches of keys before the rotation
//   phi3: fused projections and their files, partial rotary positions, longrope at the original length
#include "experiments/model/families/llama.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/passes/generate.h"
#include "experiments/quantize/quantize.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::llama_test {
namespace {

TEST(LlamaTest, HeadsOfAGroupShareKeysAndValues) {
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("llama-gqa"), projector);
  const LayerWeights layer = kLlama.load(weights, LoadConfig(GoldenFolder("llama-gqa")), 0);
  ASSERT_EQ(layer.heads.size(), 6u);
  for (int h = 0; h < 6; ++h) {
    EXPECT_EQ(layer.heads[h].q1, h);
    EXPECT_EQ(layer.heads[h].k1, h / 3);
    EXPECT_EQ(layer.heads[h].v[0], h / 3);
    EXPECT_FALSE(layer.heads[h].Differential());
    EXPECT_EQ(layer.heads[h].VSlices(), 1);
  }
}

}  // namespace
}  // namespace tare::llama_test

namespace tare::granite_test {
namespace {

TEST(GraniteTest, MultipliersAreOneWithoutTheirKeys) {
  const ModelConfig c = Parsed(SmallConfig("granite"));
  EXPECT_EQ(c.embedding_scale, 1);
  EXPECT_EQ(c.residual_scale, 1);
  EXPECT_EQ(c.attention_scale, 1);
  EXPECT_EQ(c.logit_divisor, 1);
  const ModelConfig golden = LoadConfig(GoldenFolder("granite"));
  EXPECT_EQ(golden.embedding_scale, 6);
  EXPECT_EQ(golden.residual_scale, 0.7f);
  EXPECT_EQ(golden.attention_scale, 0.3f);
  EXPECT_EQ(golden.logit_divisor, 3);
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"}) {
    ExpectConfigRefused(With(SmallConfig("granite"), key, 0), key, "got 0, expected a positive number");
    ExpectConfigRefused(With(SmallConfig("granite"), key, "12"), key, "expected a positive number");
  }
  ExpectConfigRefused(With(With(SmallConfig("granite"), "partial_rotary_factor", 0.5), "rope_scaling",
                           {{"type", "linear"}, {"factor", 2}}),
                      "partial_rotary_factor", "got 0.5, expected 1 of a granite model");
}

TEST(GraniteTest, EachMultiplierCounts) {
  const TemporaryFolder folder;
  const TokenBatch batch = GoldenBatch("granite");
  Model golden(GoldenFolder("granite"));
  const std::vector<float> expected = LogitsOf(golden, batch);
  EditedCheckpoint checkpoint(GoldenFolder("granite"));
  const auto logits = [&] {
    checkpoint.Write(folder / "m");
    Model model(folder / "m");
    return LogitsOf(model, batch);
  };
  checkpoint.config["logits_scaling"] = 1.5;
  std::vector<float> doubled = expected;
  for (float& x : doubled) x *= 2;
  EXPECT_TRUE(AllNear(logits(), doubled, 1e-6));
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier"}) {
    checkpoint = EditedCheckpoint(GoldenFolder("granite"));
    checkpoint.config.erase(key);
    EXPECT_FALSE(AllNear(logits(), expected, 1e-2)) << key;
  }
}

}  // namespace
}  // namespace tare::granite_test

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
  EXPECT_THAT(Rotating(With(small, "no_rope_layers", {0, 1, 2, 1})), ElementsAre(false, true, true, true));
  ExpectConfigRefused(With(small, "no_rope_layers", {0, 1, 1}), "no_rope_layers",
                      "got 3 layers, expected num_hidden_layers 4");
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

namespace tare::phi3_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

constexpr const char* kName = "phi3";

nlohmann::json Small() { return SmallConfig(kName); }

TEST(Phi3Test, WhatKeysSay) {
  const ModelConfig c = Parsed(Small());
  EXPECT_EQ(c.max_positions, 4096);
  EXPECT_EQ(c.rotary.Channels(c.head_dim), 12);
  EXPECT_TRUE(c.windows.empty());
  EXPECT_THAT(Parsed(With(Small(), "sliding_window", 2047)).windows, AllOf(SizeIs(4), Each(2047)));
  EXPECT_TRUE(Parsed(With(Small(), "sliding_window", 262144)).windows.empty()) << "hides nothing";
  nlohmann::json published = Small();  // keys of Phi-4-mini
  published.update(
      {{"partial_rotary_factor", 0.5},
       {"original_max_position_embeddings", 4096},
       {"max_position_embeddings", 131072},
       {"attention_bias", false},
       {"full_attn_mod", 1},
       {"interpolate_factor", 1},
       {"lm_head_bias", false},
       {"mlp_bias", false},
       {"rope_theta", 10000.0},
       {"sliding_window", 262144},
       {"tie_word_embeddings", true},
       {"rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 1, 1}}, {"long_factor", {1, 1.118, 47.77}}}}});
  const ModelConfig phi4 = Parsed(published);
  EXPECT_EQ(phi4.rotary.Channels(phi4.head_dim), 6);
  EXPECT_EQ(phi4.rotary.original_positions, 4096);
  EXPECT_DOUBLE_EQ(phi4.rotary.attention_factor, 1.1902380714238083);
  published.erase("original_max_position_embeddings");
  EXPECT_EQ(Parsed(published).rotary.original_positions, 4096);
}

TEST(Phi3Test, RefusesWhatItDoesNotCompute) {
  ExpectConfigRefused(With(Small(), "attention_bias", true), "attention_bias", "not supported");
  ExpectConfigRefused(With(Small(), "full_attn_mod", 2), "full_attn_mod", "2 is not supported");
  ExpectConfigRefused(With(Small(), "partial_rotary_factor", 0.3), "partial_rotary_factor",
                      "is 3 of the 12 channels of a head, expected an even number");
  ExpectConfigRefused(With(Small(), "partial_rotary_factor", 0), "partial_rotary_factor", "a positive number");
  ExpectConfigRefused(With(Small(), "rope_scaling", {{"type", "linear"}, {"factor", 2}}), "rope_type", "got 'linear'");
  ExpectConfigRefused(
      With(Small(), "rope_scaling", {{"type", "longrope"}, {"short_factor", {1, 1}}, {"long_factor", {1, 1}}}),
      "short_factor", "got 2 numbers, expected 6");
}

TEST(Phi3Test, FusedTensorsOfAnotherHeightAreNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](auto change, const std::string& says) {
    EditedCheckpoint checkpoint(GoldenFolder(kName));
    change(checkpoint);
    checkpoint.Write(folder / "m");
    EXPECT_THAT(Call([&] { Model(folder / "m"); }), ThrowsMessage<Error>(HasSubstr(says)));
  };
  refused([](EditedCheckpoint& c) { c.config["num_key_value_heads"] = 4; },
          "tensor 'model.layers.0.self_attn.qkv_proj.weight': got shape [64, 32], expected 96 rows from config.json");
  refused([](EditedCheckpoint& c) { c.config["intermediate_size"] = 40; },
          "tensor 'model.layers.0.mlp.gate_up_proj.weight': got shape [96, 32], expected 80 rows from config.json");
  refused([](EditedCheckpoint& c) { c.tensors.erase("model.layers.1.self_attn.qkv_proj.weight"); },
          "tensor 'model.layers.1.self_attn.qkv_proj.q.weight': missing");
  refused(
      [](EditedCheckpoint& c) {
        c.tensors["model.layers.1.self_attn.qkv_proj.q.weight"] =
            c.tensors.at("model.layers.1.self_attn.qkv_proj.weight");
      },
      "got tensors 'model.layers.1.self_attn.qkv_proj.weight' and 'model.layers.1.self_attn.qkv_proj.q.weight'");
}

// tests/data/golden/phi3: logits of 17 tokens by the long factors, logits_short of 9 by the short ones.
TEST(Phi3Test, AShortSequenceTurnsByTheShortFactors) {
  Model model(GoldenFolder(kName));
  const Safetensors expected(GoldenFolder(kName) / "expected.safetensors");
  TokenBatch batch;
  for (const std::vector<int32_t>& row : GoldenRows(kName))
    batch.Add(std::ssize(batch.sequences), std::span(row).first(9));
  EXPECT_TRUE(AllNear(LogitsOf(model, batch), ValuesOf<float>(expected, "logits_short"), 2e-5));
  batch.Add(2, GoldenRows(kName)[0]);  // a long one beside them changes nothing
  std::vector<float> all = LogitsOf(model, batch);
  const auto short_values = static_cast<ptrdiff_t>(expected.Find("logits_short")->elements());
  const std::vector<float> both(all.begin() + short_values, all.end());
  all.resize(static_cast<size_t>(short_values));
  EXPECT_TRUE(AllNear(all, ValuesOf<float>(expected, "logits_short"), 2e-5));
  const auto whole = ValuesOf<float>(expected, "logits");
  EXPECT_TRUE(AllNear(both, std::span(whole).first(both.size()), 2e-5));
}

TEST(Phi3Test, ACacheIsOfOneKindOfLength) {
  Model model(GoldenFolder(kName));
  const std::vector<int32_t> tokens = GoldenRows(kName).front();
  SequenceCache cache(model.config(), {});
  const auto add = [&](size_t first, size_t count) {
    TokenBatch batch;
    batch.AddAfter(cache, 0, std::span(tokens).subspan(first, count));
    return LogitsOf(model, batch);
  };
  add(0, 9);
  EXPECT_FALSE(cache.Outgrows(12));
  EXPECT_TRUE(cache.Outgrows(13));
  EXPECT_THAT(Call([&] { add(9, 4); }),
              ThrowsMessage<Error>(HasSubstr("got token 13 after keys that longrope turned for at most 12")));
  EXPECT_EQ(cache.tokens(), 9);
  EXPECT_THAT(Call([&] { SequenceCache(model.config(), ParseCachePlan("cache_k=int8/token+prerotary")); }),
              ThrowsMessage<Error>(HasSubstr("got +prerotary for longrope")));
}

std::vector<float> Under(Model& model, const std::string& plan) {
  PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
  const SiteVisitors visitors = run.Begin(model);
  return LogitsOf(model, GoldenBatch(kName), visitors);
}

// Fused tensors as int8 of compressed-tensors, with a scale per row: the parts are rows of the codes.
TEST(Phi3Test, FusedTensorsOfAnotherToolsCodes) {
  const TemporaryFolder folder;
  EditedCheckpoint values(GoldenFolder(kName)), codes = values;
  for (auto& [name, tensor] : values.tensors) {
    if (!name.ends_with("qkv_proj.weight") && !name.ends_with("gate_up_proj.weight")) continue;
    const auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
    EditedCheckpoint::Tensor integers{DType::kI8, tensor.shape, std::vector<std::byte>(rows * columns)},
        scales{DType::kF32, {tensor.shape[0], 1}, std::vector<std::byte>(rows * sizeof(float))},
        floats{DType::kF32, tensor.shape, std::vector<std::byte>(rows * columns * sizeof(float))};
    for (size_t row = 0; row < rows; ++row) {
      const float scale = 0.01f * static_cast<float>(row % 7 + 1);
      scales.SetBits(row, std::bit_cast<uint32_t>(scale));
      for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
        const float code = std::clamp(std::round(tensor.Value(i) / scale), -127.0f, 127.0f);
        integers.SetBits(i, static_cast<uint8_t>(static_cast<int8_t>(code)));
        floats.SetBits(i, std::bit_cast<uint32_t>(code * scale));
      }
    }
    tensor = floats;
    codes.tensors[name] = integers;
    codes.tensors[name + "_scale"] = scales;
  }
  codes.config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "int-quantized"},
      {"quantization_status", "compressed"},
      {"ignore", nlohmann::json::array()},
      {"config_groups",
       {{"group_0",
         {{"targets", {"re:.*qkv_proj", "re:.*gate_up_proj"}},
          {"weights", {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}, {"symmetric", true}}}}}}}};
  values.Write(folder / "values");
  codes.Write(folder / "codes");
  Model of_values(folder / "values"), of_codes(folder / "codes");
  const std::vector<float> expected = LogitsOf(of_values, GoldenBatch(kName));
  EXPECT_TRUE(AllNear(LogitsOf(of_codes, GoldenBatch(kName)), expected, 1e-6));
  EXPECT_EQ(of_codes.files().schemes().begin()->second.matrices, 3 * 5);
  Quantize({folder / "codes", Plan::Parse("weights=int4/group16"), folder / "q.h5"}, {});
  Quantize({folder / "values", Plan::Parse("weights=int4/group16"), folder / "r.h5"}, {});
  Model from_codes(folder / "q.h5"), from_values(folder / "r.h5");
  EXPECT_EQ(LogitsOf(from_codes, GoldenBatch(kName)), LogitsOf(from_values, GoldenBatch(kName)));
  codes.config["intermediate_size"] = 40;
  codes.Write(folder / "other");
  EXPECT_THAT(Call([&] { Model(folder / "other"); }),
              ThrowsMessage<Error>(HasSubstr("mlp.gate_up_proj.weight': got shape [96, 32], expected 80 rows")));
}

// Parts have rules and codes of their own; what is exported has the stored tensors again.
TEST(Phi3Test, QuantizedFilesHoldThePartsAndFoldersTheWhole) {
  const TemporaryFolder folder;
  const std::string plan = "weights=int4/group16,k_proj.w=int8/channel";
  Quantize({GoldenFolder(kName), Plan::Parse(plan), folder / "q.h5"}, {});
  Model stored(GoldenFolder(kName)), quantized(folder / "q.h5");
  EXPECT_EQ(LogitsOf(quantized, GoldenBatch(kName)), Under(stored, plan));
  const Checkpoint files(folder / "q.h5");
  EXPECT_EQ(files.FindQuantized("model.layers.2.self_attn.qkv_proj.k.weight")->format, Format::kInt8);
  EXPECT_EQ(files.FindQuantized("model.layers.2.mlp.gate_up_proj.up.weight")->format, Format::kInt4);
  ExportDequantized(folder / "q.h5", GoldenFolder(kName), folder / "m");
  EXPECT_EQ(CheckpointFiles(folder / "m").names(), CheckpointFiles(GoldenFolder(kName)).names());
  EXPECT_THAT(Call([&] { ConvertLayout(GoldenFolder(kName), "phi3", folder / "c"); }),
              ThrowsMessage<Error>(HasSubstr("expected a family that stores each projection alone")));
}

}  // namespace
}  // namespace tare::phi3_test
