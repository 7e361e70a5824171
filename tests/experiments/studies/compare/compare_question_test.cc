// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/studies/compare/compare_question.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/golden_sweep.h"

namespace tare::compare_question_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompareQuestion : public GoldenSweepTest {};

TEST_F(CompareQuestion, HasItsBaselineAndADivergenceForEachText) {
  options_.question.bits = {4};
  CompleteQuestion(options_);
  EXPECT_THAT(options_.question.bits, ElementsAre(16, 4));
  ASSERT_EQ(options_.tasks.size(), 2u);
  EXPECT_EQ(options_.tasks[1].Name(), "divergence:ids");
  const auto whole = options_.tasks;
  CompleteQuestion(options_);
  EXPECT_THAT(options_.question.bits, ElementsAre(16, 4));
  EXPECT_EQ(options_.tasks.size(), whole.size());
  options_.question.plans = {"q=int4/token"};
  CompleteQuestion(options_);
  EXPECT_THAT(options_.question.plans, ElementsAre("f32", "q=int4/token"));
}

TEST_F(CompareQuestion, TheFewestBitsAreAttributed) {
  options_.question.bits = {16, 8, 4};
  EXPECT_EQ(AttributedPlan(options_, ""), "int4");
  EXPECT_EQ(AttributedPlan(options_, "q=int6/token"), "q=int6/token");
  EXPECT_EQ(AttributedPlan(options_, "none"), "");
  options_.question.plans = {"f32"};
  EXPECT_EQ(AttributedPlan(options_, ""), "");
}

TEST_F(CompareQuestion, BothModelsAreAskedInTheirOwnFolders) {
  const std::vector<ModelAttribution> both = AskBoth(options_, "q=int4/token,k=int4/token", 20);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_THAT(both[1].sweep.models, ElementsAre(options_.models[1]));
  EXPECT_EQ(both[1].sweep.folder, options_.folder / "attribution-B");
  EXPECT_EQ(both[1].sweep.windows.tokens, 20);
  EXPECT_THAT(both[1].sweep.question.plans,
              ElementsAre("f32", "q=int4/token,k=int4/token", "q=int4/token", "k=int4/token"));
  EXPECT_TRUE(AskBoth(options_, "", 20).empty());
  options_.windows.window = 1 << 20;
  EXPECT_THAT(Call([&] { AskBoth(options_, "", 20); }), testing::ThrowsMessage<Error>(HasSubstr("--window")));
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ModelOutliers : public GoldenSweepTest {
 protected:
  ModelOutliers() { std::filesystem::create_directory(options_.folder); }

  std::vector<Json> Measure() {
    measured_.clear();
    return OutliersOf(options_, EarlierOutliers(options_), [&](const std::string& what, int64_t after) {
      measured_.push_back(what + " " + std::to_string(after));
      return Progress();
    });
  }

  std::vector<std::string> measured_;
};

TEST_F(ModelOutliers, AreMeasuredOnceOnTheSameWindows) {
  const std::vector<Json> models = Measure();
  EXPECT_THAT(measured_, ElementsAre("llama-old-config outliers 1", "diffllama-mha outliers 0"));
  EXPECT_EQ(models.at(1).at("model"), "diffllama-mha");
  EXPECT_EQ(Measure(), models);
  EXPECT_THAT(measured_, IsEmpty());
  options_.windows.limit = 1;
  EXPECT_NE(Measure(), models);
  EXPECT_EQ(measured_.size(), 2u);
}

}  // namespace
}  // namespace tare::compare_question_test
