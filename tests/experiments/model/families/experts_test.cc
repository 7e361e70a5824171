// SPDX-License-Identifier: Apache-2.0
// The keys that families with experts share.
#include "experiments/model/families/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "quant/file/strict_json.h"
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
