// SPDX-License-Identifier: Apache-2.0
// mistral: spellings of the window. mixtral: experts stored one by one, in files, plans and refusals; gpt_oss_test.cc
// tests what methods do with experts. parity_test.cc compares the forward passes, greedy_test.cc tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::mistral_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

TEST(MistralTest, AMissingWindowIsTransformersDefaultAndNullIsNone) {
  EXPECT_THAT(Parsed(SmallConfig("mistral")).windows, AllOf(SizeIs(4), Each(4096)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", 9)).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", 0), "sliding_window", "got 0");
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", "9"), "sliding_window", "expected an integer");
}

TEST(MistralTest, MinistralsWindowsAreByLayer) {
  const nlohmann::json types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"},
                       ministral = With(SmallConfig("ministral"), "sliding_window", 9);
  EXPECT_THAT(Parsed(With(ministral, "layer_types", types)).windows, testing::ElementsAre(0, 9, 0, 9));
  EXPECT_THAT(Parsed(ministral).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(ministral, "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(With(ministral, "sliding_window", nullptr), "layer_types", types), "layer_types",
                      "no sliding_window is in use");
  EXPECT_THAT(Parsed(With(With(SmallConfig("mistral"), "layer_types", types), "sliding_window", 9)).windows,
              testing::ElementsAre(0, 9, 0, 9));
}

TEST(MistralTest, HasNoBiasesWhateverTheKeysSay) {
  EXPECT_FALSE(Parsed(With(SmallConfig("mistral"), "attention_bias", true)).attention_bias);
}

}  // namespace
}  // namespace tare::mistral_test

namespace tare::mixtral_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Gate, up and down of each expert are matrices of their own: in files, and as plans select them.
TEST(MixtralTest, QuantizedExpertsAreThoseOfThePlan) {
  const TemporaryFolder folder;
  for (const char* name : {"mixtral", "qwen3-moe"}) {
    const Plan plan = Plan::Parse("experts.gate_up.w[e0-2]=int4/group16,experts.down.w[l1]=int8/channel");
    Quantize({.model = GoldenFolder(name), .plan = plan, .out = folder / "q.h5"}, {});
    Model quantized(folder / "q.h5"), model(GoldenFolder(name));
    PlanRun run(plan, Carrying::kSimulated, ModelSitesOf(model));
    const SiteVisitors visitors = run.Begin(model);
    EXPECT_EQ(LogitsOf(quantized, GoldenBatch(name)), LogitsOf(model, GoldenBatch(name), visitors)) << name;
    std::filesystem::remove(folder / "q.h5");
  }
}

// MLX has all experts of a layer in one tensor [experts, out, in], and its own names for w1, w3 and w2.
TEST(MixtralTest, ExpertsInOneTensorOfMlxAreTheSame) {
  const TemporaryFolder folder;
  for (const char* name : {"mixtral", "qwen3-moe"}) {
    EditedCheckpoint checkpoint(GoldenFolder(name));
    std::map<std::string, EditedCheckpoint::Tensor> stacked;
    for (const auto& [stored, tensor] : checkpoint.tensors) {
      const size_t at = stored.find("experts.");
      if (at == stored.npos) continue;
      std::string part = stored.substr(stored.find('.', at + 8) + 1);
      for (const auto& [family, mlx] : {std::pair("w1.", "gate_proj."), {"w2.", "down_proj."}, {"w3.", "up_proj."}})
        part = part.starts_with(family) ? mlx + part.substr(3) : part;
      EditedCheckpoint::Tensor& all = stacked[stored.substr(0, at) + "switch_mlp." + part];
      if (all.shape.empty()) all = {tensor.dtype, {0, tensor.shape[0], tensor.shape[1]}, {}};
      ++all.shape[0];  // fewer than ten, so they come by their numbers
      all.bytes.insert(all.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
    EXPECT_EQ(stacked.size(), 6u) << name;
    std::erase_if(checkpoint.tensors, [](const auto& t) { return t.first.find("experts.") != t.first.npos; });
    checkpoint.tensors.merge(stacked);
    checkpoint.Write(folder / name);
    Model model(folder / name), separate(GoldenFolder(name));
    EXPECT_EQ(LogitsOf(model, GoldenBatch(name)), LogitsOf(separate, GoldenBatch(name))) << name;
  }
}

// MLX rounds routers as well: 8 bits, (code - 64) / 64.
TEST(MixtralTest, ARouterInCodesIsRead) {
  EditedCheckpoint plain(GoldenFolder("mixtral")), coded = plain;
  for (const std::string layer : {"0", "1"}) {
    const std::string router = "model.layers." + layer + ".block_sparse_moe.gate.";
    EditedCheckpoint::Tensor values{DType::kF32, {4, 48}, std::vector<std::byte>(size_t{4} * 4 * 48)};
    EditedCheckpoint::Tensor codes{DType::kU32, {4, 12}, std::vector<std::byte>(size_t{4} * 48)};
    EditedCheckpoint::Tensor scales{DType::kF32, {4, 1}, std::vector<std::byte>(size_t{4} * 4)}, biases = scales;
    for (size_t i = 0; i < 4 * 48; ++i) {
      const size_t code = (i * 37 + layer[0]) % 128;
      codes.bytes[i] = static_cast<std::byte>(code);
      values.SetBits(i, std::bit_cast<uint32_t>((static_cast<float>(code) - 64) / 64));
    }
    for (size_t row = 0; row < 4; ++row) {
      scales.SetBits(row, std::bit_cast<uint32_t>(1.0f / 64));
      biases.SetBits(row, std::bit_cast<uint32_t>(-1.0f));
    }
    plain.tensors[router + "weight"] = values;
    coded.tensors[router + "weight"] = codes;
    coded.tensors[router + "scales"] = scales;
    coded.tensors[router + "biases"] = biases;
  }
  coded.config["quantization"] = {{"bits", 8}, {"group_size", 48}};
  const TemporaryFolder folder;
  plain.Write(folder / "plain");
  coded.Write(folder / "coded");
  Model with_values(folder / "plain"), with_codes(folder / "coded");
  EXPECT_EQ(LogitsOf(with_codes, GoldenBatch("mixtral")), LogitsOf(with_values, GoldenBatch("mixtral")));
}

TEST(MixtralTest, ARandomCheckpointIsWhole) {
  const TemporaryFolder folder;
  ModelConfig asked = LoadConfig(GoldenFolder("mixtral"));
  WriteRandomCheckpoint(folder / "m", asked, WeightType::kBf16, 3);
  Model model(folder / "m");
  EXPECT_EQ(model.config().experts, 4);
  EXPECT_EQ(model.layers()[1].experts_up.size(), 4u);
}

TEST(MixtralTest, MissingExpertsAreNamed) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("mixtral"));
  checkpoint.config["num_local_experts"] = 5;
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("block_sparse_moe.gate.weight': got shape [4, 48], expected [5, 48]")));
  checkpoint.config["num_local_experts"] = 4;
  checkpoint.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w3.weight");
  checkpoint.Write(folder / "n");
  EXPECT_THAT(Call([&] { Model(folder / "n"); }),
              ThrowsMessage<Error>(HasSubstr("model.layers.1.block_sparse_moe.experts.2.w3.weight': missing")));
}

}  // namespace
}  // namespace tare::mixtral_test
