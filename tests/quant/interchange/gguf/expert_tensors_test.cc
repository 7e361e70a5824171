// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/expert_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::expert_tensors_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;
using Mapped = std::map<std::string, MappedTensor, std::less<>>;

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
  Mapped mapped;
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
  Mapped mapped;
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
    Mapped mapped;
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
}  // namespace tare::expert_tensors_test
