// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/onednn_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/bench/attention_inputs.h"
#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
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
    for (const OneDnnNumbers numbers : {OneDnnNumbers::kF32, OneDnnNumbers::kInt8}) {
      if (numbers == OneDnnNumbers::kInt8 && !UkernelServes(ProductTypes::kU8S8)) continue;
      std::vector<std::string> implementations;
      ComposedAttention(in.problem(), numbers, &implementations);
      EXPECT_THAT(implementations,
                  testing::AllOf(testing::SizeIs(4), testing::Each(testing::Not(testing::StartsWith("ref")))));
    }
  }
}

TEST(GraphAttention, IsAttention) {
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in({.family = family, .n = 70, .d = 16, .heads = 2});
    GraphAttention(in.problem())();
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 1e-5) << family;
  }
}

// Sharp maps, where an 8-bit sum of two products would saturate; more keys than queries; a value in slices (V1).
TEST(OneDnnInt8, IsAttentionOnStaticCodes) {
  if (!UkernelServes(ProductTypes::kU8S8)) GTEST_SKIP() << "no VNNI: oneDNN's sums saturate";
  for (const char* family : {"standard", "v1", "v2"}) {
    AttentionInputs in({.family = family, .n = 70, .keys = 90, .d = 16, .heads = 4, .data = "sink"});
    const AttentionProblem& p = in.problem();
    ComposedAttention(p, OneDnnNumbers::kInt8)();
    EXPECT_NO_THROW(CheckStaticAttention(p, family, 0, 70));
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 0.1) << family;
    GraphAttention(p, OneDnnNumbers::kInt8)();
    EXPECT_NO_THROW(CheckStaticAttention(p, family, StaticTensor(p.v).scale, 70));
    EXPECT_LT(in.ErrorsOfOut().rel_l2, 0.1) << family;
  }
}

TEST(GraphAttention, RefusesHeadsThatShareKeys) {
  AttentionInputs in({.family = "standard", .n = 70, .d = 16, .heads = 4, .kv_heads = 2});
  EXPECT_THAT(Call([&] { GraphAttention(in.problem()); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("heads that share keys")));
}

}  // namespace

}  // namespace tare::onednn_attention_test
