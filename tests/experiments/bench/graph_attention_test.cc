// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/graph_attention.h"

#include <gtest/gtest.h>

#include "experiments/bench/attention_inputs.h"

namespace tare {
namespace {

TEST(GraphAttention, IsAttention) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in(family, "gaussian", 70, 16, 2, {}, 0.5f, 1);
    GraphAttention(in.problem()).Run();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

}  // namespace
}  // namespace tare
