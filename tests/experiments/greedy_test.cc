// SPDX-License-Identifier: Apache-2.0
// Greedy tokens after golden prompts (greedy.json), which transformers chose from passes over the whole text: with a
// cache and without. The prompts of phi3 grow beyond the length at which longrope turns keys otherwise.
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "experiments/passes/generate.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

class GreedyTest : public testing::TestWithParam<const char*> {};

TEST_P(GreedyTest, Tokens) {
  Model model(GoldenFolder(GetParam()));
  int runs = 0;
  for (const nlohmann::json& one : ReadJson(GoldenFolder(GetParam()) / "greedy.json")) {
    const auto prompt = one["prompt"].get<std::vector<int32_t>>(), expected = one["tokens"].get<std::vector<int32_t>>();
    ASSERT_EQ(expected.size(), 40u);
    GenerateOptions options;
    options.tokens = std::ssize(expected);
    Generation cached, whole;
    Generate(model, {}, prompt, options, {}, [](int32_t) { return true; }, cached);
    GenerateWhole(model, {}, prompt, options, [](int32_t) { return true; }, whole);
    EXPECT_EQ(cached.tokens, expected);
    EXPECT_EQ(whole.tokens, expected);
    ++runs;
  }
  EXPECT_EQ(runs, 3);
}

INSTANTIATE_TEST_SUITE_P(Golden, GreedyTest, testing::Values("smollm3", "granite", "phi3", "olmo3", "ministral"));

}  // namespace
}  // namespace tare
