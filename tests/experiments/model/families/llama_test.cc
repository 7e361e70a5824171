// SPDX-License-Identifier: Apache-2.0
// Which heads belong together; parity_test.cc compares the forward pass with transformers.
#include "experiments/model/families/llama.h"

#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "tests/support/golden.h"

namespace tare::llama_test {
namespace {

TEST(LlamaTest, HeadsOfAGroupShareKeysAndValues) {
  const Projector projector(Math::kF32);
  Weights weights(GoldenFolder("llama-gqa"), projector);
  const LayerWeights layer = kLlama.load(weights, LoadConfig(GoldenFolder("llama-gqa")), 0);
  ASSERT_EQ(layer.heads.size(), 6u);
  for (int h = 0; h < 6; ++h) {
    EXPECT_EQ(layer.heads[h].q1, h);
    EXPECT_EQ(layer.heads[h].k1, h / 3);
    EXPECT_EQ(layer.heads[h].v[0], h / 3);
    EXPECT_FALSE(layer.heads[h].Differential());
    EXPECT_EQ(layer.heads[h].VSlices(), 1);
  }
}

}  // namespace
}  // namespace tare::llama_test
