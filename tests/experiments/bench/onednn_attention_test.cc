// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/onednn_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/bench/attention_inputs.h"
#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::onednn_attention_test {
namespace {

TEST(ComposedAttention, IsAttention) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in({.family = family, .n = 70, .d = 16, .heads = 2});
    ComposedAttention(in.problem())();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

TEST(ComposedAttention, ABaselineIsNotOneDnnsReferencePath) {
  for (const char* family : {"standard", "v1", "v2"}) {
    const AttentionInputs in({.family = family, .n = 256, .d = 64, .heads = 2});
    std::vector<std::string> implementations;
    ComposedAttention(in.problem(), &implementations);
    EXPECT_THAT(implementations,
                testing::AllOf(testing::SizeIs(4), testing::Each(testing::Not(testing::StartsWith("ref")))));
  }
}

TEST(GraphAttention, IsAttention) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in({.family = family, .n = 70, .d = 16, .heads = 2});
    GraphAttention(in.problem())();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

TEST(GraphAttention, RefusesHeadsThatShareKeys) {
  AttentionInputs in({.family = "standard", .n = 70, .d = 16, .heads = 4, .kv_heads = 2});
  EXPECT_THAT(Call([&] { GraphAttention(in.problem()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("heads that share keys")));
}

}  // namespace

}  // namespace tare::onednn_attention_test
