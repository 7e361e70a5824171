// SPDX-License-Identifier: Apache-2.0
// The keys of qwen3_moe and mixtral; parity_test.cc compares the forward pass, greedy_test.cc tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "quant/file/strict_json.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"

namespace tare::qwen3_moe_test {
namespace {

TEST(Qwen3MoeTest, ReadsItsKeys) {
  const ModelConfig mixtral = LoadConfig(GoldenFolder("mixtral")), qwen = LoadConfig(GoldenFolder("qwen3-moe"));
  EXPECT_EQ(mixtral.experts, 4);
  EXPECT_TRUE(mixtral.shares_sum);
  EXPECT_FALSE(mixtral.gate_with_up);
  EXPECT_EQ(qwen.experts, 6);
  EXPECT_EQ(qwen.ffn, 32);
  EXPECT_FALSE(qwen.shares_sum);
  EXPECT_TRUE(qwen.qk_norm);
  nlohmann::json json = ReadJson(GoldenFolder("qwen3-moe") / "config.json");
  const auto refused = [&](const char* key, const nlohmann::json& value, const char* says) {
    nlohmann::json other = json;
    other[key] = value;
    ExpectConfigRefused(other, key, says);
  };
  refused("mlp_only_layers", {1}, "is not supported");
  refused("decoder_sparse_step", 2, "2 is not supported");
  refused("moe_intermediate_size", 0, "got 0");
}

}  // namespace
}  // namespace tare::qwen3_moe_test
