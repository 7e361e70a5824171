// SPDX-License-Identifier: Apache-2.0
// The multipliers' keys; parity_test.cc compares the forward pass with transformers.
#include "experiments/model/config/read_config.h"
#include "experiments/model/families/table.h"

#include "experiments/model/model.h"
#include "tests/support/checkpoint.h"
#include "tests/support/compare.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::granite_test {
namespace {

TEST(GraniteTest, MultipliersAreOneWithoutTheirKeys) {
  const ModelConfig c = Parsed(SmallConfig("granite"));
  EXPECT_EQ(c.embedding_scale, 1);
  EXPECT_EQ(c.residual_scale, 1);
  EXPECT_EQ(c.attention_scale, 1);
  EXPECT_EQ(c.logit_divisor, 1);
  const ModelConfig golden = LoadConfig(GoldenFolder("granite"));
  EXPECT_EQ(golden.embedding_scale, 6);
  EXPECT_EQ(golden.residual_scale, 0.7f);
  EXPECT_EQ(golden.attention_scale, 0.3f);
  EXPECT_EQ(golden.logit_divisor, 3);
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"}) {
    ExpectConfigRefused(With(SmallConfig("granite"), key, 0), key, "got 0, expected a positive number");
    ExpectConfigRefused(With(SmallConfig("granite"), key, "12"), key, "expected a positive number");
  }
  ExpectConfigRefused(With(SmallConfig("granite"), "partial_rotary_factor", 0.5), "partial_rotary_factor",
                      "got 0.5, expected 1 of a granite model");
}

TEST(GraniteTest, EachMultiplierCounts) {
  const TemporaryFolder folder;
  const TokenBatch batch = GoldenBatch("granite");
  Model golden(GoldenFolder("granite"));
  const std::vector<float> expected = LogitsOf(golden, batch);
  EditedCheckpoint checkpoint(GoldenFolder("granite"));
  const auto logits = [&] {
    checkpoint.Write(folder / "m");
    Model model(folder / "m");
    return LogitsOf(model, batch);
  };
  checkpoint.config["logits_scaling"] = 1.5;
  std::vector<float> doubled = expected;
  for (float& x : doubled) x *= 2;
  EXPECT_TRUE(AllNear(logits(), doubled, 1e-6));
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier"}) {
    checkpoint = EditedCheckpoint(GoldenFolder("granite"));
    checkpoint.config.erase(key);
    EXPECT_FALSE(AllNear(logits(), expected, 1e-2)) << key;
  }
}

}  // namespace
}  // namespace tare::granite_test
