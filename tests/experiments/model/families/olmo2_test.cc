// SPDX-License-Identifier: Apache-2.0
// What norms after the blocks leave to change among the weights; the forward pass is held to transformers in
// parity_test.cc.
#include "experiments/model/families/table.h"

#include "tests/support/family_config.h"

namespace tare {
namespace {

using testing::UnorderedElementsAre;

TEST(Olmo2Test, NothingIsMovedThroughNormsThatStandAfterABlock) {
  EXPECT_EQ(kOlmo2.rotation, Rotation::kNone);
  EXPECT_THAT(kOlmo2.smoothed, UnorderedElementsAre(Site::kDownProjIn, Site::kOProjIn));
  for (const LinearPlace& place : kOlmo2.linear) EXPECT_TRUE(place.norm.empty()) << place.tensor;
}

TEST(Olmo2Test, NormsOfQueriesAndKeysAreAsWideAsAllHeads) {
  const ModelConfig c = Parsed(With(SmallConfig("olmo2"), "num_key_value_heads", 2));
  EXPECT_TRUE(c.qk_norm);
  EXPECT_THAT(kOlmo2.vectors[0].shape(c), testing::ElementsAre(48));
  EXPECT_THAT(kOlmo2.vectors[1].shape(c), testing::ElementsAre(24));
}

TEST(Olmo2Test, WhatItDoesNotDoIsRefused) {
  ExpectConfigRefused(With(SmallConfig("olmo2"), "clip_qkv", 8), "clip_qkv", "not supported");
  ExpectConfigRefused(With(SmallConfig("olmo2"), "sliding_window", 8), "sliding_window", "not supported");
}

}  // namespace
}  // namespace tare
