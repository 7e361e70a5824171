// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/compare/model_outliers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/golden_sweep.h"

namespace tare::model_outliers_test {
namespace {

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
}  // namespace tare::model_outliers_test
