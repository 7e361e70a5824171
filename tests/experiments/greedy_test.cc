// SPDX-License-Identifier: Apache-2.0
// Greedy tokens after golden prompts (greedy.json), which transformers chose from passes over the whole text: with a
// cache and without. The prompts of phi3 grow beyond the length at which longrope turns keys otherwise.
#include <gtest/gtest.h>

#include <filesystem>

#include "experiments/model/model.h"
#include "experiments/passes/generate.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::greedy_test {
namespace {

struct GreedyGolden {
  const char* name;
  size_t tokens = 40;
};

class GreedyTest : public testing::TestWithParam<GreedyGolden> {};

TEST_P(GreedyTest, Tokens) {
  const std::filesystem::path folder = GoldenFolder(GetParam().name);
  Model model(folder);
  int runs = 0;
  for (const nlohmann::json& one : ReadJson(folder / "greedy.json")) {
    const auto prompt = one["prompt"].get<std::vector<int32_t>>(), expected = one["tokens"].get<std::vector<int32_t>>();
    ASSERT_EQ(expected.size(), GetParam().tokens);
    GenerateOptions options;
    options.tokens = std::ssize(expected);
    Generation cached, whole;
    Generate(model, {}, prompt, options, {}, [](int32_t) { return true; }, cached);
    GenerateWhole(model, {}, prompt, options, [](int32_t) { return true; }, whole);
    EXPECT_EQ(cached.tokens, expected) << folder;
    EXPECT_EQ(whole.tokens, expected) << folder;
    ++runs;
  }
  EXPECT_EQ(runs, 3);
}

INSTANTIATE_TEST_SUITE_P(Golden, GreedyTest,
                         testing::Values(GreedyGolden{"smollm3"}, GreedyGolden{"granite"}, GreedyGolden{"phi3"},
                                         GreedyGolden{"olmo3"}, GreedyGolden{"ministral"},
                                         GreedyGolden{"phi4flash", 20}, GreedyGolden{"phi4flash-biases"},
                                         GreedyGolden{"phi4flash-bare"}, GreedyGolden{"gpt-oss"},
                                         GreedyGolden{"gpt-oss-mxfp4"}, GreedyGolden{"mixtral"},
                                         GreedyGolden{"qwen3-moe"}, GreedyGolden{"mamba2", 20},
                                         GreedyGolden{"mamba2-groups", 20}, GreedyGolden{"diffmamba2", 20},
                                         GreedyGolden{"diffmamba2-all", 20}));

}  // namespace
}  // namespace tare::greedy_test
