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
    AttentionInputs in(family, "gaussian", 70, 16, 2, {}, 0.5f, 1);
    ComposedAttention(in.problem()).Run();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

TEST(ComposedAttention, ABaselineIsNotOneDnnsReferencePath) {
  for (const char* family : {"standard", "v1", "v2"}) {
    const AttentionInputs in(family, "gaussian", 256, 64, 2, {}, 0.5f, 1);
    const ComposedAttention composed(in.problem());
    EXPECT_THAT(composed.Implementations(),
                testing::AllOf(testing::SizeIs(4), testing::Each(testing::Not(testing::StartsWith("ref")))));
  }
}

TEST(GraphAttention, IsAttention) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in(family, "gaussian", 70, 16, 2, {}, 0.5f, 1);
    GraphAttention(in.problem()).Run();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

TEST(GraphAttention, RefusesHeadsThatShareKeys) {
  AttentionInputs in("standard", "gaussian", 70, 16, 4, {}, 0.5f, 1, {.kv_heads = 2});
  EXPECT_THAT(Call([&] { GraphAttention graph(in.problem()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("heads that share keys")));
}

}  // namespace

}  // namespace tare::onednn_attention_test
