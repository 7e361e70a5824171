// SPDX-License-Identifier: Apache-2.0
// The configuration of every golden model that a GGUF file can hold is read back from the keys that it becomes. Whole
// files are in export_test.cc.
#include "experiments/export/gguf/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::gguf_export_architecture_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(GgufMetadata, ConfigurationsAreReadBack) {
  const TemporaryFolder folder;
  for (const char* name : {"llama", "llama-linear", "llama-yarn", "mixtral", "qwen2", "qwen3", "qwen3moe", "olmo2",
                           "olmo3", "gemma3", "smollm3", "granite", "phi3", "gpt-oss"}) {
    const std::filesystem::path theirs =
        std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (std::string(name) + ".gguf");
    ConvertToGguf(theirs, "F32", "1", folder / "m.gguf");
    const ModelConfig a = LoadConfig(theirs), b = LoadConfig(folder / "m.gguf");
    EXPECT_EQ(a.family, b.family);
    EXPECT_EQ(a.head_dim, b.head_dim) << name;
    EXPECT_EQ(a.norm_eps, b.norm_eps) << name;
    EXPECT_EQ(a.max_positions, b.max_positions) << name;
    EXPECT_EQ(a.tied_embeddings, b.tied_embeddings) << name;
    EXPECT_EQ(a.attention_bias, b.attention_bias) << name;
    EXPECT_EQ(a.mlp_bias, b.mlp_bias) << name;
    EXPECT_EQ(a.rotary.type, b.rotary.type) << name;
    EXPECT_EQ(a.rotary.theta, b.rotary.theta) << name;
    EXPECT_EQ(a.rotary.factor, b.rotary.factor) << name;
    EXPECT_EQ(a.rotary.original_positions, b.rotary.original_positions) << name;
    EXPECT_EQ(a.rotary.share, b.rotary.share) << name;
    EXPECT_EQ(a.rotary.truncate, b.rotary.truncate) << name;
    EXPECT_EQ(a.rotary.fast_rotations, b.rotary.fast_rotations) << name;
    EXPECT_EQ(a.rotary.slow_rotations, b.rotary.slow_rotations) << name;
    EXPECT_EQ(a.rotary.attention_factor, b.rotary.attention_factor) << name;
    EXPECT_EQ(a.rotary.short_divisors, b.rotary.short_divisors) << name;
    EXPECT_EQ(a.rotary.long_divisors, b.rotary.long_divisors) << name;
    EXPECT_EQ(a.windows, b.windows) << name;
    EXPECT_EQ(a.unrotated, b.unrotated) << name;
    EXPECT_EQ(a.experts, b.experts) << name;
    EXPECT_EQ(a.chosen_experts, b.chosen_experts) << name;
    EXPECT_EQ(a.ffn, b.ffn) << name;
    EXPECT_EQ(a.embedding_scale, b.embedding_scale) << name;
    EXPECT_EQ(a.residual_scale, b.residual_scale) << name;
    EXPECT_EQ(a.logit_divisor, b.logit_divisor) << name;
    EXPECT_EQ(a.attention_scale, b.attention_scale) << name;
    EXPECT_EQ(a.logit_cap, b.logit_cap) << name;
    EXPECT_EQ(a.window_rotary.has_value(), b.window_rotary.has_value()) << name;
    if (!a.window_rotary) continue;
    EXPECT_EQ(a.window_rotary->theta, b.window_rotary->theta) << name;
  }
}

TEST(GgufLimits, WhatLlamaCppComputesOtherwiseIsRefused) {
  using Type = RotaryConfig::Type;
  const auto refuses = [](const char* golden, const std::function<void(ModelConfig&)>& change, const char* why) {
    ModelConfig config = LoadConfig(GoldenFolder(golden));
    config.rotary.type = Type::kDefault;
    change(config);
    EXPECT_THAT(Call([&] { GgufArchitectureOf(config, "m"); }), ThrowsMessage<Error>(HasSubstr(why))) << why;
  };
  const auto in_all = [](const ModelConfig& c, auto value) {
    return std::vector(static_cast<size_t>(c.layers), value);
  };
  refuses(
      "llama-gqa", [](ModelConfig& c) { c.rotary.layout = RotaryConfig::Layout::kInterleaved; },
      "m: to gguf: got rotary positions of neighbouring channels, expected those of halves");
  refuses("llama-gqa", [](ModelConfig& c) { c.attention_scale = 3.0f; }, "got another scale of attention logits");
  refuses("qwen2", [](ModelConfig& c) { c.windows = {0, 7}; }, "got layers that see a window of keys");
  refuses("mixtral", [&](ModelConfig& c) { c.windows = in_all(c, 7); }, "got layers that see a window of keys");
  refuses("qwen3-moe", [](ModelConfig&) {}, "got norm_topk_prob false");
  refuses(
      "smollm3", [&](ModelConfig& c) { c.windows.clear(), c.unrotated = in_all(c, true); },
      "got layer 0 without rotary positions, expected every fourth layer without them");
  refuses(
      "gpt-oss", [](ModelConfig& c) { c.windows[1] = c.windows[0]; },
      "got layer 1 with a window, expected every second layer to see all keys");
  refuses("olmo3", [](ModelConfig& c) { c.windows.clear(); }, "got an olmo3 without windows");
  refuses(
      "gpt-oss", [](ModelConfig& c) { c.rotary.type = Type::kYarn; },
      "got yarn with beta_fast 4 and beta_slow 1, expected 32 and 1");
  refuses(
      "llama-gqa", [](ModelConfig& c) { c.rotary.type = Type::kYarn, c.rotary.truncate = false; },
      "got yarn with truncate false, expected true");
  refuses(
      "gpt-oss", [](ModelConfig& c) { c.rotary.original_positions = 16.5; },
      "got original_max_position_embeddings 16.5, expected a whole number");
  refuses(
      "llama-gqa", [](ModelConfig& c) { c.rotary.type = Type::kLongRope; },
      "got rotary positions of type longrope, expected default, linear, llama3 or yarn");
  refuses(
      "qwen3", [](ModelConfig& c) { c.rotary.type = Type::kLlama3, c.attention_bias = false; },
      "got rotary positions of type llama3, expected default, linear or yarn in a qwen3");
  const auto biased = [](ModelConfig& c) { c.attention_bias = true; };
  for (const char* golden : {"qwen3", "olmo2", "smollm3"})
    refuses(golden, biased, "got biases of attention, expected none in a");
  refuses("gpt-oss", [](ModelConfig& c) { c.attention_bias = false; }, "got a gpt_oss without biases of attention");
  refuses("olmo2", [](ModelConfig& c) { c.mlp_bias = true; }, "got biases of the feed-forward, expected none in an");
  refuses("phi3", [](ModelConfig& c) { c.head_dim *= 2; }, "expected heads that are as wide as the hidden size 32");
  refuses("motif", [](ModelConfig&) {}, "got a motif model, expected one of llama.cpp's architectures");
  ModelConfig mistral = LoadConfig(GoldenFolder("mistral"));
  mistral.windows.clear();
  EXPECT_EQ(GgufArchitectureOf(mistral, "m").name, "llama");
}

struct Tensors {
  explicit Tensors(const char* golden)
      : config(LoadConfig(GoldenFolder(golden))),
        all(GgufTensors(config, *gguf::ArchitectureOfFamily(config.family), "m")) {}
  const GgufTensor& At(std::string_view name) const {
    const auto found = std::ranges::find(all, name, &GgufTensor::name);
    if (found == all.end()) throw std::out_of_range(std::string(name));
    return *found;
  }
  ModelConfig config;
  std::vector<GgufTensor> all;
};

TEST(GgufTensors, NamesAreUnique) {
  for (const char* golden : {"llama-gqa", "phi3", "gpt-oss", "mixtral"}) {
    std::set<std::string> names;
    for (const GgufTensor& tensor : Tensors(golden).all) EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  }
}

TEST(GgufTensors, FusedMatricesAreTheirPartsBelowEachOther) {
  const Tensors phi3("phi3");
  const GgufTensor& qkv = phi3.At("blk.1.attn_qkv.weight");
  ASSERT_EQ(qkv.pieces.size(), 3u);
  EXPECT_EQ(qkv.pieces[0].tensor, "model.layers.1.self_attn.qkv_proj.q.weight");
  EXPECT_EQ(qkv.pieces[2].count, phi3.config.kv_heads * phi3.config.head_dim);
  EXPECT_EQ(qkv.experts, 0);
}

TEST(GgufTensors, ExpertsAreOneTensor) {
  const Tensors mixtral("mixtral");
  const GgufTensor& down = mixtral.At("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.experts, mixtral.config.experts);
  ASSERT_EQ(std::ssize(down.pieces), mixtral.config.experts);
  EXPECT_EQ(down.pieces[2].tensor, "model.layers.0.block_sparse_moe.experts.2.w2.weight");
  EXPECT_EQ(down.pieces[2].count, mixtral.config.hidden);
  EXPECT_EQ(mixtral.At("blk.0.attn_k.weight").rotated_heads, mixtral.config.kv_heads);
  EXPECT_EQ(mixtral.At("blk.0.ffn_gate_inp.weight").kind, GgufKind::kVector);
}

TEST(GgufTensors, GateAndUpOfGptOssAreTwoTensors) {
  const Tensors oss("gpt-oss");
  for (const auto& [name, first] : {std::pair("blk.0.ffn_gate_exps.weight", 0),
                                    {"blk.0.ffn_up_exps.weight", 1},
                                    {"blk.0.ffn_gate_exps.bias", 0},
                                    {"blk.0.ffn_up_exps.bias", 1}}) {
    const GgufPiece& piece = oss.At(name).pieces.at(1);
    EXPECT_EQ(piece.first, first) << name;
    EXPECT_EQ(piece.step, 2) << name;
    EXPECT_EQ(piece.count, oss.config.ffn) << name;
    EXPECT_TRUE(piece.tensor.starts_with("model.layers.0.mlp.experts.1.gate_up_proj.")) << piece.tensor;
  }
  EXPECT_EQ(oss.At("blk.0.attn_sinks.weight").pieces[0].tensor, "model.layers.0.self_attn.sinks");
}

TEST(GgufTensors, TensorsWithoutANameAreRefused) {
  const ModelConfig qwen = LoadConfig(GoldenFolder("qwen3"));
  EXPECT_THAT(Call([&] { GgufTensors(qwen, *gguf::ArchitectureOfFamily("llama"), "m"); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("m: to gguf: tensor 'model.layers.0.self_attn.q_norm")));
}

}  // namespace
}  // namespace tare::gguf_export_architecture_test
