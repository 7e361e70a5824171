// SPDX-License-Identifier: Apache-2.0
// Which weight changes are possible with norms after the blocks; parity_test.cc compares the forward pass with
// transformers.
#include "experiments/model/families/table.h"

#include "tests/support/family_config.h"

namespace tare::olmo2_test {
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

TEST(Olmo2Test, WindowsOfOlmo3AndTheirUnscaledPositions) {
  const nlohmann::json yarn = {
      {"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 256}, {"rope_theta", 5e5}};
  const ModelConfig c = Parsed(With(SmallConfig("olmo3"), "rope_parameters", yarn));
  EXPECT_THAT(c.windows, testing::ElementsAre(4096, 4096, 4096, 0));
  EXPECT_EQ(c.Rotary(3).type, RotaryConfig::Type::kYarn);
  EXPECT_EQ(c.Rotary(0).type, RotaryConfig::Type::kDefault);
  EXPECT_EQ(c.Rotary(0).theta, 5e5);
  EXPECT_EQ(c.Rotary(0).attention_factor, 1);
  ExpectConfigRefused(With(SmallConfig("olmo3"), "sliding_window", nullptr), "sliding_window", "got null");
}

TEST(Olmo2Test, KeysOfOtherFamiliesAreNotRead) {
  EXPECT_TRUE(Parsed(With(SmallConfig("olmo2"), "sliding_window", 8)).windows.empty()) << "as in transformers";
}

}  // namespace
}  // namespace tare::olmo2_test
