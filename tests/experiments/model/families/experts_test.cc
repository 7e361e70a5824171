// SPDX-License-Identifier: Apache-2.0
// The keys that families with experts share.
// The unit of gpt-oss's experts, and their tensors as rows of one matrix; families/gpt_oss_test.cc and parity_test.cc
// have the layer.
#include "experiments/model/families/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/config/config.h"
#include "experiments/model/linear/weights.h"
#include "quant/file/json.h"
#include "tests/support/checkpoint.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"

namespace tare::experts_test {
namespace {

TEST(Experts, CountsThatDisagreeAreNamed) {
  const nlohmann::json json = ReadJson(GoldenFolder("qwen3-moe") / "config.json");
  const auto refused = [&](const char* key, int value, const char* names, const char* says) {
    nlohmann::json other = json;
    other[key] = value;
    ExpectConfigRefused(other, names, says);
  };
  refused("num_experts_per_tok", 7, "num_experts_per_tok", "got 7, expected at most num_local_experts 6");
  refused("num_experts", 5, "num_local_experts", "got 6, expected num_experts 5");
  refused("num_local_experts", 1 << 20, "num_local_experts", "expected 1 to 16384");
  refused("experts_per_token", 3, "experts_per_token", "got 3, expected num_experts_per_tok 2");
}

TEST(Experts, NamesOfEach) {
  const std::vector<LinearLayer> all = LinearLayersOf(LoadConfig(GoldenFolder("qwen3-moe")), 1);
  ASSERT_EQ(all.size(), 4u + 3 * 6);
  EXPECT_EQ(all[3].Tensor(LoadConfig(GoldenFolder("qwen3-moe"))), "model.layers.1.self_attn.o_proj");
  EXPECT_EQ(all[9].Tensor(LoadConfig(GoldenFolder("qwen3-moe"))), "model.layers.1.mlp.experts.5.gate_proj");
  EXPECT_EQ(TextOf(all[9].WeightKey()), "layer 1, expert 5, experts.gate_up.w");
}

}  // namespace
}  // namespace tare::experts_test

namespace tare::expert_layers_test {
namespace {

// The formula in double, beyond both clamps too.
TEST(ExpertLayers, TheUnitIsClamped) {
  const float gate_up[] = {0.5f, 2, 9, 9, -20, -9, 7.5f, -0.5f};
  float inner[4];
  ClampedSwiGlu(0, gate_up, inner, 4);
  for (int i = 0; i < 4; ++i) {
    const double g = std::min(double{gate_up[2 * i]}, 7.0), u = std::clamp(double{gate_up[2 * i + 1]}, -7.0, 7.0);
    const double want = (u + 1) * g / (1 + std::exp(-1.702 * g));
    // The exponent is rounded to 2^-24 of itself, which the exponential makes as much of its own size.
    EXPECT_NEAR(inner[i], want, (1.702 * std::abs(g) + 4) * 0x1p-24 * std::abs(want)) << i;
  }
}

TEST(ExpertLayers, EachExpertHasAMatrix) {
  EditedCheckpoint checkpoint(GoldenFolder("gpt-oss"));
  const Checkpoint files = OpenSplit(GoldenFolder("gpt-oss"), LoadConfig(GoldenFolder("gpt-oss")));
  const std::string expert = "model.layers.1.mlp.experts.3.down_proj";
  const ForeignMatrix* matrix = files.FindForeign(expert + ".weight");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->out(), 64);
  EXPECT_EQ(matrix->in(), 32);
  EXPECT_FALSE(matrix->HasCodes());
  EXPECT_TRUE(files.schemes().empty());
  const auto& stored = checkpoint.tensors.at("model.layers.1.mlp.experts.down_proj");
  std::vector<float> row(32);
  for (const int64_t r : {0, 1, 63}) {
    matrix->Row(r, row.data());
    for (int64_t i = 0; i < 32; ++i)
      EXPECT_EQ(row[static_cast<size_t>(i)], stored.Value(static_cast<size_t>((3 * 32 + i) * 64 + r)));
  }
  EXPECT_EQ(files.Find("model.layers.1.mlp.experts.down_proj"), nullptr);
  const TensorView& bias = *files.Find(expert + ".bias");
  EXPECT_EQ(bias.shape, std::vector<int64_t>{64});
  const auto& biases = checkpoint.tensors.at("model.layers.1.mlp.experts.down_proj_bias");
  EXPECT_TRUE(std::ranges::equal(bias.bytes, std::span(biases.bytes).subspan(3 * 64 * 2, 64 * 2)));
}

// Codes of all experts are one matrix where they are read.
TEST(ExpertLayers, RowsOfCodesAreTheExperts) {
  const auto folder = GoldenFolder("gpt-oss-mxfp4");
  const Checkpoint whole(folder), files = OpenSplit(folder, LoadConfig(folder));
  const ForeignMatrix* const all = whole.FindForeign("model.layers.2.mlp.experts.gate_up_proj.weight");
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(files.FindForeign("model.layers.2.mlp.experts.gate_up_proj.weight"), nullptr);
  EXPECT_EQ(files.total_bytes(), whole.total_bytes());
  std::vector<float> want(64), got(64);
  for (int expert = 0; expert < 5; ++expert) {
    const ForeignMatrix* const one =
        files.FindForeign("model.layers.2.mlp.experts." + std::to_string(expert) + ".gate_up_proj.weight");
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->out(), 64);
    for (int64_t row = 0; row < 64; ++row) {
      all->Row(expert * 64 + row, want.data());
      one->Row(row, got.data());
      ASSERT_EQ(got, want) << expert << ' ' << row;
    }
  }
}

}  // namespace
}  // namespace tare::expert_layers_test
