// SPDX-License-Identifier: Apache-2.0
// Names of plans; tests/experiments/recipes_test.cc compares recipes with the code that they are named after.
#include "quant/plan/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/plan/plan.h"

namespace tare::presets_test {
namespace {

TEST(PlanPreset, NamesStandForWholePlans) {
  for (const char* name : {"int8", "int6", "int4"}) {
    const Plan plan = Plan::Parse(name);
    EXPECT_EQ(Name(plan.Match({Site::kUpProjW, 3})->format), name);
    EXPECT_EQ(plan.Match({Site::kUpProjIn, 3})->format, Format::kInt8);
    EXPECT_TRUE(plan.Touches(Site::kProbs));
  }
  EXPECT_EQ(Plan::Parse("int6").canonical(),
            "weights=int6/channel,linear_in=int8/token,q=int6/token,k=int6/token,probs=u6/block64,"
            "v=int6/block64.channel");
  EXPECT_THROW(Plan::Parse("int5"), Error);
  for (const char* text : {"weights=int4/channel,int6", "int6,weights=int4/channel"})
    EXPECT_THAT([&] { Plan::Parse(text); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(
                    "got 'int6', expected a site: a preset stands alone; try its rules, weights=int6/channel,")));
}

TEST(PlanPreset, RulesAreCanonicalAndFoundByThem) {
  for (const PlanPreset& preset : kPlanPresets) {
    EXPECT_EQ(Plan::Parse(preset.name).canonical(), preset.rules) << preset.name;
    EXPECT_EQ(RecipeOf(preset.rules), preset.source.empty() ? nullptr : &preset) << preset.name;
    EXPECT_EQ(preset.source.empty(), preset.note.empty()) << preset.name;
    EXPECT_EQ(ShownName(preset.rules), preset.source.empty() ? preset.rules : preset.name);
  }
  EXPECT_EQ(RecipeOf("f32"), nullptr);
  EXPECT_EQ(FindPreset("sage"), nullptr);
}

}  // namespace
}  // namespace tare::presets_test
