// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/plan_preset.h"

#include <gtest/gtest.h>

#include "quant/plan/plan.h"

namespace tare::plan_preset_test {
namespace {

TEST(PlanPreset, NamesStandForWholePlans) {
  for (const char* name : {"int8", "int6", "int4"}) {
    const Plan plan = Plan::Parse(name);
    EXPECT_EQ(plan.canonical(), *PlanPreset(name));
    EXPECT_EQ(Name(plan.Match({Site::kUpProjW, 3})->format), name);
    EXPECT_EQ(plan.Match({Site::kUpProjIn, 3})->format, Format::kInt8);
    EXPECT_TRUE(plan.Touches(Site::kProbs));
  }
  EXPECT_FALSE(PlanPreset("int5"));
  EXPECT_FALSE(PlanPreset(""));
}

}  // namespace
}  // namespace tare::plan_preset_test
