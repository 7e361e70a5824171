// SPDX-License-Identifier: Apache-2.0
// mistral: spellings of the window. mixtral: experts stored one by one, in files, plans and refusals; gpt_oss_test.cc
// tests what methods do with experts. parity_test.cc compares the forward passes, greedy_test.cc tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/config/config.h"
#include "experiments/model/families/table.h"
#include "experiments/model/model.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/family_config.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::mistral_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

TEST(MistralTest, AMissingWindowIsTransformersDefaultAndNullIsNone) {
  EXPECT_THAT(Parsed(SmallConfig("mistral")).windows, AllOf(SizeIs(4), Each(4096)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", 9)).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(SmallConfig("mistral"), "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", 0), "sliding_window", "got 0");
  ExpectConfigRefused(With(SmallConfig("mistral"), "sliding_window", "9"), "sliding_window", "expected an integer");
}

TEST(MistralTest, MinistralsWindowsAreByLayer) {
  const nlohmann::json types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"},
                       ministral = With(SmallConfig("ministral"), "sliding_window", 9);
  EXPECT_THAT(Parsed(With(ministral, "layer_types", types)).windows, testing::ElementsAre(0, 9, 0, 9));
  EXPECT_THAT(Parsed(ministral).windows, AllOf(SizeIs(4), Each(9)));
  EXPECT_THAT(Parsed(With(ministral, "sliding_window", nullptr)).windows, IsEmpty());
  ExpectConfigRefused(With(With(ministral, "sliding_window", nullptr), "layer_types", types), "layer_types",
                      "no sliding_window is in use");
  EXPECT_THAT(Parsed(With(With(SmallConfig("mistral"), "layer_types", types), "sliding_window", 9)).windows,
              testing::ElementsAre(0, 9, 0, 9));
}

TEST(MistralTest, HasNoBiasesWhateverTheKeysSay) {
  EXPECT_FALSE(Parsed(With(SmallConfig("mistral"), "attention_bias", true)).attention_bias);
}

}  // namespace
}  // namespace tare::mistral_test

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
