// SPDX-License-Identifier: Apache-2.0
// Experts stored one by one: their files, plans and refusals; parity_test.cc compares the forward pass,
// qwen3_moe_test.cc has greedy tokens, gpt_oss_test.cc what methods do with experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/read_config.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::mixtral_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Gate, up and down of each expert are matrices of their own: in files, and as plans select them.
TEST(MixtralTest, QuantizedExpertsAreThoseOfThePlan) {
  const TemporaryFolder folder;
  for (const char* name : {"mixtral", "qwen3-moe"}) {
    const Plan plan = Plan::Parse("experts.gate_up.w[e0-2]=int4/group16,experts.down.w[l1]=int8/channel");
    Quantize({.model = GoldenFolder(name), .plan = plan, .out = folder / "q.h5"}, {});
    Model quantized(folder / "q.h5"), model(GoldenFolder(name));
    PlanRun run(plan, Carrying::kSimulated, ModelSitesOf(model));
    const SiteVisitors visitors = run.Begin(model);
    EXPECT_EQ(LogitsOf(quantized, GoldenBatch(name)), LogitsOf(model, GoldenBatch(name), visitors)) << name;
    std::filesystem::remove(folder / "q.h5");
  }
}

TEST(MixtralTest, ARandomCheckpointIsWhole) {
  const TemporaryFolder folder;
  ModelConfig asked = LoadConfig(GoldenFolder("mixtral"));
  WriteRandomCheckpoint(folder / "m", asked, WeightType::kBf16, 3);
  Model model(folder / "m");
  EXPECT_EQ(model.config().experts, 4);
  EXPECT_EQ(model.layers()[1].experts_up.size(), 4u);
}

TEST(MixtralTest, MissingExpertsAreNamed) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("mixtral"));
  checkpoint.config["num_local_experts"] = 5;
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("block_sparse_moe.gate.weight': got shape [4, 48], expected [5, 48]")));
  checkpoint.config["num_local_experts"] = 4;
  checkpoint.tensors.erase("model.layers.1.block_sparse_moe.experts.2.w3.weight");
  checkpoint.Write(folder / "n");
  EXPECT_THAT(Call([&] { Model(folder / "n"); }),
              ThrowsMessage<Error>(HasSubstr("model.layers.1.block_sparse_moe.experts.2.w3.weight': missing")));
}

}  // namespace
}  // namespace tare::mixtral_test
