// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tare {
namespace {

TEST(Steps, EachIsReadByItsOwnName) {
  std::set<std::string_view> names;
  for (const StepKind* kind : AllSteps()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    const Step step = kind->read(kind->name);
    EXPECT_EQ(step.text, kind->name);
    EXPECT_EQ(static_cast<bool>(step.change), kind->place == StepPlace::kWeights) << kind->name;
    EXPECT_FALSE(step.on_input && step.on_layer) << kind->name;
    EXPECT_TRUE(kind->place != StepPlace::kBetterCodes || step.on_input) << kind->name;
  }
}

TEST(Steps, AreInTheHelp) {
  const std::string help = MethodHelp(AllSteps());
  EXPECT_THAT(help, testing::StartsWith("steps joined by +: hadamard[:SEED], cayley[:STEPS[:SEED]] (rotations"));
  EXPECT_THAT(help, testing::HasSubstr("no codes) or awq (equivalent weights, clipped ranges), then rtn (round"));
  EXPECT_THAT(help, testing::EndsWith("signround[:STEPS] or autoround[:STEPS[:SEED]], then quantease"));
  EXPECT_EQ(StepsWithText(AllSteps()), "cayley, smoothquant, awq, gptq, gptaq, signround, autoround and quantease");
}

}  // namespace
}  // namespace tare
