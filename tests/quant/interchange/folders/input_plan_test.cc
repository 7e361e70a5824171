// SPDX-License-Identifier: Apache-2.0
// Every plan that is offered is one.
#include "quant/interchange/folders/input_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/plan/plan.h"

namespace tare::input_plan_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Strategy = CompressedArguments::Strategy;

constexpr const char* kLinear[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

std::vector<std::string> NotesOf(const CompressedArguments& inputs, std::vector<std::string> also = {},
                                 bool has_scales = false) {
  InputPlan plan;
  for (const char* part : kLinear) plan.Add(std::string("model.layers.0.x.") + part, inputs, has_scales);
  for (const std::string& part : also) plan.Add(part, inputs, has_scales);
  std::vector<std::string> notes;
  plan.Describe(notes);
  return notes;
}

std::string PlanOf(const CompressedArguments& inputs, std::vector<std::string> also = {}) {
  const std::vector<std::string> notes = NotesOf(inputs, std::move(also));
  if (notes.empty() || !notes[0].contains("--plan ")) return "";
  const std::string plan = notes[0].substr(notes[0].find("--plan ") + 7);
  EXPECT_NO_THROW(Plan::Parse(plan)) << plan;
  return plan;
}

TEST(InputPlan, TheNearestPlan) {
  EXPECT_EQ(PlanOf({.bits = 8, .dynamic = true, .strategy = Strategy::kToken}), "linear_in=int8/token");
  EXPECT_EQ(PlanOf({.bits = 4, .dynamic = true, .strategy = Strategy::kToken}), "linear_in=int4/token");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kToken}),
            "linear_in=fp8e4m3/token");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 128}),
            "linear_in=fp8e4m3/group128");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 32}),
            "linear_in=mxfp8e4m3");
  EXPECT_EQ(PlanOf({.bits = 4, .is_float = true, .dynamic = true, .strategy = Strategy::kTensorGroup, .group = 16}),
            "linear_in=nvfp4");
  EXPECT_EQ(PlanOf({.bits = 4, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 32}),
            "linear_in=mxfp4:even");
  EXPECT_EQ(PlanOf({.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, {"lm_head"}),
            "linear_in=int8/token,lm_head.in=int8/token");
}

TEST(InputPlan, StaticScalesAreTheFilesOrTares) {
  const CompressedArguments inputs{.bits = 8, .strategy = Strategy::kTensor};
  EXPECT_EQ(PlanOf(inputs), "linear_in=int8/tensor+static");
  EXPECT_THAT(NotesOf(inputs)[1], HasSubstr("Tare's own come from --stats"));
  EXPECT_THAT(NotesOf(inputs, {}, true)[1], HasSubstr("are the file's"));
}

TEST(InputPlan, WhatNoPlanSays) {
  EXPECT_THAT(NotesOf({.bits = 16}), IsEmpty());
  EXPECT_THAT(NotesOf({.bits = 8, .symmetric = false, .dynamic = true, .strategy = Strategy::kToken}),
              ElementsAre(HasSubstr("in a way that no plan says")));
  InputPlan plan;
  plan.Add("layers.0.up_proj", {.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, false);
  plan.Add("layers.1.up_proj", {.bits = 4, .dynamic = true, .strategy = Strategy::kToken}, false);
  std::vector<std::string> notes;
  plan.Describe(notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("in a way that no plan says")));
}

TEST(InputPlan, SomeModulesOnly) {
  InputPlan plan;
  plan.Add("layers.0.up_proj", {.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, false);
  plan.Add("layers.0.down_proj", {.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kToken}, false);
  std::vector<std::string> notes;
  plan.Describe(notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("--plan down_proj.in=fp8e4m3/token,up_proj.in=int8/token")));
}

}  // namespace
}  // namespace tare::input_plan_test
