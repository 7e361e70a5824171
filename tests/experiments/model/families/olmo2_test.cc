// SPDX-License-Identifier: Apache-2.0
// Which weight changes are possible with norms after the blocks; parity_test.cc compares the forward pass with
// transformers.
#include "experiments/model/families/table.h"

#include "tests/support/family_config.h"

namespace tare {
namespace {

using testing::UnorderedElementsAre;

TEST(Olmo2Test, NormsAfterABlockTakeNoSmoothing) {
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

TEST(Olmo2Test, UnsupportedFeaturesAreRefused) {
  ExpectConfigRefused(With(SmallConfig("olmo2"), "clip_qkv", 8), "clip_qkv", "not supported");
  ExpectConfigRefused(With(SmallConfig("olmo2"), "sliding_window", 8), "sliding_window", "not supported");
}

}  // namespace
}  // namespace tare
