// SPDX-License-Identifier: Apache-2.0
// Whole files, byte for byte those of llama.cpp's converter, are in gguf_export_test.cc.
#include "experiments/export/gguf/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::gguf_tensors_test {
namespace {

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
}  // namespace tare::gguf_tensors_test
