// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/description.h"

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace tare::description_test {
namespace {

TEST(Description, OfADifferentialModelHasItsLambdas) {
  const Model model(GoldenFolder("diffllama-mha"), WeightReading::kShapes);
  const Json json = Describe(model);
  EXPECT_EQ(json.at("schema"), "tare.inspect/1");
  EXPECT_EQ(json.at("family"), "diffllama");
  EXPECT_EQ(json.at("lambda").size(), static_cast<size_t>(model.config().layers));
  EXPECT_FALSE(json.contains("foreign"));
}

TEST(Description, ExpertsAreOneRow) {
  const auto matrix = [](const char* name, int bytes) { return Json{{"tensor", name}, {"bytes", bytes}}; };
  const Json alike{{"tensor", "l0.experts.0.up.weight"}, {"format", "int4"}, {"bytes", 3}};
  Json second = alike, other = alike;
  second["tensor"] = "l0.experts.1.up.weight";
  other["format"] = "int8";
  const Json rows = ExpertsTogether({alike, second, other, matrix("head", 5)});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("bytes"), 6);
  EXPECT_EQ(rows[0].at("tensor"), "l0.experts.*.up.weight");
  EXPECT_EQ(rows[2], matrix("head", 5));
}

}  // namespace
}  // namespace tare::description_test
