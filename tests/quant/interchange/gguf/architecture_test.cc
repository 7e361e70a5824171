// SPDX-License-Identifier: Apache-2.0
// Names go both ways: every tensor of the golden files, and of each architecture no other.
//
// Configurations and names; whole models of every architecture are in tests/experiments/gguf_parity_test.cc.
#include "quant/interchange/gguf/architecture.h"

#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::architecture_test {
namespace {

using namespace gguf;

TEST(GgufArchitectureTable, NamesGoBothWays) {
  for (const auto& [name, family] : std::map<std::string, const char*>{{"llama", "llama"},
                                                                       {"mixtral", "mixtral"},
                                                                       {"qwen2", "qwen2"},
                                                                       {"qwen3", "qwen3"},
                                                                       {"qwen3moe", "qwen3_moe"},
                                                                       {"olmo2", "olmo2"},
                                                                       {"olmo3", "olmo3"},
                                                                       {"gemma3", "gemma3_text"},
                                                                       {"smollm3", "smollm3"},
                                                                       {"granite", "granite"},
                                                                       {"phi3", "phi3"},
                                                                       {"gpt-oss", "gpt_oss"}}) {
    const Architecture& a = *ArchitectureOfFamily(family);
    const MappedFile file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / (name + ".gguf"));
    for (const Tensor& tensor : Parse(file.bytes(), name).tensors) {
      if (tensor.name.starts_with("rope_")) continue;
      if (name == "gpt-oss" && tensor.name.contains(".ffn_up_exps.")) continue;  // gate's name, both ways
      const std::string ours = CheckpointName(a, tensor.name);
      EXPECT_NE(ours, "") << tensor.name;
      EXPECT_EQ(FileName(a, ours), tensor.name) << name;
    }
  }
  EXPECT_EQ(ArchitectureOfFamily("diffllama"), nullptr);
}

TEST(GgufArchitectureTable, NamesThatAnArchitectureLacksAreEmpty) {
  const Architecture& llama = *ArchitectureOfFamily("llama");
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.00.mlp.up_proj.weight",
                           "model.layers.0.mlp.up_proj.scale", "model.layers.0.mlp.up_proj", "lm_head.bias", ""})
    EXPECT_EQ(FileName(llama, name), "") << name;
  EXPECT_EQ(FileName(*ArchitectureOfFamily("qwen3"), "model.layers.3.self_attn.q_norm.weight"),
            "blk.3.attn_q_norm.weight");
  EXPECT_EQ(FileName(*ArchitectureOfFamily("olmo2"), "model.layers.0.input_layernorm.weight"), "");
  const Architecture& gpt_oss = *ArchitectureOfFamily("gpt_oss");
  EXPECT_EQ(FileName(gpt_oss, "model.layers.0.self_attn.sinks"), "blk.0.attn_sinks.weight");
  EXPECT_EQ(FileName(gpt_oss, "model.layers.0.self_attn.sinks.weight"), "");
  EXPECT_EQ(CheckpointName(gpt_oss, "blk.0.attn_sinks"), "");
  EXPECT_EQ(CheckpointName(gpt_oss, "blk.0.ffn_gate_exps.weight"), "model.layers.0.mlp.experts.{}.gate_up_proj.weight");
}

TEST(GgufArchitectureTable, ListsSayEachOnce) {
  EXPECT_EQ(ArchitecturesText(), "llama, qwen2, qwen3, qwen3moe, olmo2, gemma3, smollm3, granite, phi3 or gpt-oss");
  EXPECT_THAT(FamiliesText(), testing::EndsWith(" or gpt_oss"));
}

// A family that a key tells comes before the one of the same name without it.
TEST(GgufArchitectureTable, FamiliesWithAKeyComeFirst) {
  std::set<std::string_view> without;
  for (const Architecture& a : Architectures()) {
    EXPECT_FALSE(without.contains(a.name)) << a.family;
    if (a.only_with.empty()) without.insert(a.name);
  }
}

// Two heads of width 6: row 3 h + j of a half is row 2 j + h of the file.
TEST(GgufArchitectureTable, RowsOfNeighbours) {
  const int64_t expected[]{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (int64_t row = 0; row < 12; ++row) EXPECT_EQ(RowOfNeighbours(row, 6), expected[row]);
}

using testing::HasSubstr;
using testing::ThrowsMessage;

// A model of one layer without its tensors but the embedding and the queries: 2 heads of 4, hidden 8.
GgufBytes Small(const std::string& architecture = "llama") {
  GgufBytes file;
  file.AddText("general.architecture", architecture);
  for (const auto& [key, number] : std::map<std::string, uint32_t>{{"block_count", 1},
                                                                   {"context_length", 64},
                                                                   {"embedding_length", 8},
                                                                   {"feed_forward_length", 16},
                                                                   {"attention.head_count", 2},
                                                                   {"rope.dimension_count", 4}})
    file.AddNumber(architecture + "." + key, number);
  file.AddReal(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  file.AddFloats("token_embd.weight", {8, 3}, std::vector<float>(24));
  return file;
}

struct Mapped {
  explicit Mapped(const GgufBytes& file)
      : bytes(file.Bytes()),
        content(Parse(std::as_bytes(std::span(bytes)), "f.gguf")),
        model(MapModel(content.metadata, content.tensors)),
        config(ParseJson(model.config, "config.json")) {}
  std::string bytes;
  Content content;
  MappedModel model;
  nlohmann::json config;
};

void ExpectRefused(const GgufBytes& file, const char* why) {
  EXPECT_THAT(Call([&] { Mapped mapped(file); }), ThrowsMessage<Error>(HasSubstr(why)));
}

TEST(GgufArchitecture, ConfigurationIsHuggingFaces) {
  const Mapped mapped(Small()
                          .AddReal("llama.rope.freq_base", 5e5f)
                          .AddNumber("tokenizer.ggml.bos_token_id", 1)
                          .AddNumber("tokenizer.ggml.eos_token_id", 2)
                          .AddNumber("tokenizer.ggml.eot_token_id", 9));
  EXPECT_EQ(mapped.config["model_type"], "llama");
  EXPECT_EQ(mapped.config["vocab_size"], 3);
  EXPECT_EQ(mapped.config["head_dim"], 4);
  EXPECT_EQ(mapped.config["num_key_value_heads"], 2);
  EXPECT_EQ(mapped.config["rms_norm_eps"], 1e-5);
  EXPECT_EQ(mapped.config["rope_theta"], 5e5);
  EXPECT_EQ(mapped.config["tie_word_embeddings"], true);
  EXPECT_EQ(mapped.config["bos_token_id"], 1);
  EXPECT_EQ(mapped.config["eos_token_id"], nlohmann::json({2}));  // 9 is no token
  EXPECT_TRUE(mapped.model.tensors.contains("model.embed_tokens.weight"));
}

// Rows of a head of 4: the file has channels 0 2 1 3.
TEST(GgufArchitecture, RowsOfQueriesAreReordered) {
  const Mapped mapped(Small().AddFloats("blk.0.attn_q.weight", {8, 8}, std::vector<float>(64)));
  const MappedTensor& q = mapped.model.tensors.at("model.layers.0.self_attn.q_proj.weight");
  const std::vector<int64_t> expected{0, 2, 1, 3, 4, 6, 5, 7};
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(q.Row(row).row, expected[static_cast<size_t>(row)]);
  const Mapped other(Small("qwen2").AddFloats("blk.0.attn_q.weight", {8, 8}, std::vector<float>(64)));
  EXPECT_EQ(other.model.tensors.at("model.layers.0.self_attn.q_proj.weight").Row(1).row, 1);
}

TEST(GgufArchitecture, WhatIsNotKnownIsRefusedByName) {
  ExpectRefused(Small("falcon"), "general.architecture: got 'falcon', expected llama, qwen2, qwen3, ");
  ExpectRefused(Small().AddText("general.type", "adapter"), "general.type: got 'adapter'");
  ExpectRefused(Small().AddReal("llama.attention.clamp_kqv", 8), "llama.attention.clamp_kqv: is not supported");
  ExpectRefused(Small("qwen2").AddNumber("qwen2.expert_count", 8), "qwen2.expert_count: got 8, expected 0");
  ExpectRefused(Small().AddFlag("llama.attention.causal", false), "llama.attention.causal: got false");
  ExpectRefused(Small().AddNumber("llama.attention.value_length", 6),
                "llama.attention.value_length: got 6, expected 4");
  ExpectRefused(Small().AddNumber("llama.attention.sliding_window", 6), "llama.attention.sliding_window: is not");
  ExpectRefused(Small().AddFloats("blk.0.ffn_gate_exps.weight", {8, 8}, std::vector<float>(64)),
                "tensor 'blk.0.ffn_gate_exps.weight': is no part of the llama models");
  ExpectRefused(Small().AddFloats("blk.00.attn_q.weight", {8, 8}, std::vector<float>(64)), "is no part of");
  ExpectRefused(Small().AddFloats("rope_freqs.weight", {2}, std::vector<float>{3, 1}),
                "got divisors that are not those of llama3's rotary scaling");
  ExpectRefused(Small().AddFloats("blk.0.attn_q.weight", {8, 6}, std::vector<float>(48)),
                "got 6 rows, expected a multiple of twice the 2 heads");
}

TEST(GgufArchitecture, AbsurdSizesAreRefused) {
  GgufBytes file;
  file.AddText("general.architecture", "llama").AddFloats("token_embd.weight", {8, 3}, std::vector<float>(24));
  ExpectRefused(file, "llama.attention.head_count: got nothing, expected a positive number");
  file.AddNumber("llama.attention.head_count", 0x80000000u);
  ExpectRefused(file, "llama.attention.head_count: got 2147483648, expected a number from 0 to 2147483647");
  ExpectRefused(GgufBytes().AddText("general.architecture", "llama"), "tensor 'token_embd.weight': got nothing");
}

TEST(GgufArchitecture, NumbersByLayerMustBeEqual) {
  GgufBytes same = Small().Add("llama.attention.head_count_kv", 9, GgufBytes::Numbers<int32_t>(5, {1, 1}));
  EXPECT_EQ(Mapped(same).config["num_key_value_heads"], 1);
  GgufBytes other = Small().Add("llama.attention.head_count_kv", 9, GgufBytes::Numbers<int32_t>(5, {1, 2}));
  ExpectRefused(other, "llama.attention.head_count_kv: got numbers that differ by layer");
}

// One name, two families: a key decides.
TEST(GgufArchitecture, FamiliesOfOneNameAreToldByAKey) {
  EXPECT_EQ(
      Mapped(Small().AddNumber("llama.expert_count", 4).AddNumber("llama.expert_used_count", 2)).config["model_type"],
      "mixtral");
  EXPECT_EQ(Mapped(Small().AddNumber("llama.expert_count", 0)).config["model_type"], "llama");
  EXPECT_EQ(Mapped(Small("olmo2").AddNumber("olmo2.attention.sliding_window", 6)).config["model_type"], "olmo3");
  EXPECT_EQ(Mapped(Small("olmo2")).config["model_type"], "olmo2");
}

TEST(GgufArchitecture, PartOfAHeadMayTurnInPhi3Alone) {
  GgufBytes file;
  file.AddText("general.architecture", "phi3");
  for (const auto& [key, number] : std::map<std::string, uint32_t>{{"block_count", 1},
                                                                   {"context_length", 64},
                                                                   {"embedding_length", 16},
                                                                   {"feed_forward_length", 16},
                                                                   {"attention.head_count", 2},
                                                                   {"rope.dimension_count", 6}})
    file.AddNumber("phi3." + key, number);
  file.AddFloats("token_embd.weight", {16, 3}, std::vector<float>(48));
  EXPECT_EQ(Mapped(file).config["partial_rotary_factor"], 0.75);
  ExpectRefused(Small("qwen2").AddNumber("qwen2.attention.key_length", 8), "qwen2.rope.dimension_count: got 4");
}

// 46 times the nearest double of 26 / 46 is less than 26, which whoever cuts it off makes 25: all pairs like these, and
// one in sixteen of the others.
TEST(GgufArchitecture, ChannelsThatTurnAreWhole) {
  for (int width = 2; width <= 256; width += 2) {
    for (int channels = 2; channels <= width; channels += 2) {
      if (static_cast<int>(width * (1.0 * channels / width)) == channels && (width + channels) % 32 != 0) continue;
      GgufBytes file;
      file.AddText("general.architecture", "phi3");
      for (const auto& [key, number] :
           std::map<std::string, uint32_t>{{"block_count", 1},
                                           {"context_length", 64},
                                           {"embedding_length", 8},
                                           {"feed_forward_length", 16},
                                           {"attention.head_count", 2},
                                           {"attention.key_length", static_cast<uint32_t>(width)},
                                           {"rope.dimension_count", static_cast<uint32_t>(channels)}})
        file.AddNumber("phi3." + key, number);
      file.AddFloats("token_embd.weight", {8, 3}, std::vector<float>(24));
      const double share = Mapped(file).config["partial_rotary_factor"];
      ASSERT_EQ(static_cast<int>(width * share), channels) << width;
    }
  }
}

TEST(GgufArchitecture, EachExpertHasATensor) {
  const Mapped mapped(Small()
                          .AddNumber("llama.expert_count", 2)
                          .AddNumber("llama.expert_used_count", 1)
                          .AddFloats("blk.0.ffn_gate_exps.weight", {8, 16, 2}, std::vector<float>(256)));
  EXPECT_TRUE(mapped.model.tensors.contains("model.layers.0.block_sparse_moe.experts.0.w1.weight"));
  EXPECT_TRUE(mapped.model.tensors.contains("model.layers.0.block_sparse_moe.experts.1.w1.weight"));
  EXPECT_EQ(mapped.model.tensors.size(), 3u);
}

using MappedTensors = std::map<std::string, MappedTensor, std::less<>>;

const TypeInfo& kFloats = *FindType("F32");

TensorsByName ByName(std::span<const Tensor> tensors) {
  TensorsByName by_name;
  for (const Tensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  return by_name;
}

Tensor Stacked(std::string_view name, std::vector<int64_t> shape) { return {name, &kFloats, std::move(shape), {}}; }

TEST(GgufExpertTensors, EachExpertHasItsRows) {
  const Architecture& mixtral = *ArchitectureOfFamily("mixtral");
  const Tensor down = Stacked("blk.2.ffn_down_exps.weight", {3, 8, 16});
  MappedTensors mapped;
  AddExpertTensors(mixtral, down, CheckpointName(mixtral, down.name), {}, 3, "f", mapped);
  ASSERT_EQ(mapped.size(), 3u);
  const MappedTensor& last = mapped.at("model.layers.2.block_sparse_moe.experts.2.w2.weight");
  EXPECT_EQ(last.shape, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(last.Row(5).row, 21);
  EXPECT_EQ(last.Row(5).tensor, &down);
}

// gpt-oss: rows of gate and up in turns, and values of their biases.
TEST(GgufExpertTensors, GateAndUpComeInTurns) {
  const Architecture& oss = *ArchitectureOfFamily("gpt_oss");
  const Tensor tensors[]{Stacked("blk.0.ffn_gate_exps.weight", {2, 4, 8}),
                         Stacked("blk.0.ffn_up_exps.weight", {2, 4, 8}), Stacked("blk.0.ffn_gate_exps.bias", {2, 4}),
                         Stacked("blk.0.ffn_up_exps.bias", {2, 4})};
  MappedTensors mapped;
  for (const Tensor& tensor : tensors)
    AddExpertTensors(oss, tensor, CheckpointName(oss, tensor.name), ByName(tensors), 2, "f", mapped);
  ASSERT_EQ(mapped.size(), 4u);
  const MappedTensor& weight = mapped.at("model.layers.0.mlp.experts.1.gate_up_proj.weight");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(weight.Row(0).tensor, &tensors[0]);
  EXPECT_EQ(weight.Row(5).tensor, &tensors[1]);
  EXPECT_EQ(weight.Row(5).row, 6);
  const MappedTensor& bias = mapped.at("model.layers.0.mlp.experts.1.gate_up_proj.bias");
  EXPECT_EQ(bias.shape, (std::vector<int64_t>{8}));
  EXPECT_EQ(bias.Row(7).tensor, &tensors[3]);
  EXPECT_EQ(bias.Row(7).row, 7);
}

TEST(GgufExpertTensors, OtherShapesAreRefused) {
  const Architecture& oss = *ArchitectureOfFamily("gpt_oss");
  const auto refused = [&](const Tensor& tensor, std::span<const Tensor> all, const char* why) {
    MappedTensors mapped;
    EXPECT_THAT(Call([&] {
                  AddExpertTensors(oss, tensor, CheckpointName(oss, tensor.name), ByName(all), 2, "f.gguf", mapped);
                }),
                ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused(Stacked("blk.0.ffn_down_exps.weight", {3, 4, 8}), {},
          "f.gguf: tensor 'blk.0.ffn_down_exps.weight': got shape [3, 4, 8], expected matrices of 2 experts");
  refused(Stacked("blk.0.ffn_down_exps.weight", {2, 4}), {}, "got shape [2, 4], expected matrices");
  refused(Stacked("blk.0.ffn_down_exps.bias", {2, 4, 1}), {}, "got shape [2, 4, 1], expected vectors");
  const Tensor gate = Stacked("blk.0.ffn_gate_exps.weight", {2, 4, 8});
  refused(gate, {}, "tensor 'blk.0.ffn_up_exps.weight': missing, expected beside 'blk.0.ffn_gate_exps.weight'");
  refused(Stacked("blk.9.ffn_up_exps.bias", {2, 4}), {},
          "tensor 'blk.9.ffn_gate_exps.bias': missing, expected beside 'blk.9.ffn_up_exps.bias'");
  const Tensor up[]{Stacked("blk.0.ffn_up_exps.weight", {2, 5, 8})};
  refused(gate, up, "got F32 of shape [2, 5, 8], expected F32 of shape [2, 4, 8]");
  Tensor other[]{Stacked("blk.0.ffn_up_exps.weight", {2, 4, 8})};
  other[0].type = FindType("F16");
  refused(gate, other, "got F16 of shape [2, 4, 8], expected F32");
}

TEST(GgufExpertTensors, Names) { EXPECT_EQ(NameOfExpert("a.{}.b", 12), "a.12.b"); }

}  // namespace

}  // namespace tare::architecture_test
