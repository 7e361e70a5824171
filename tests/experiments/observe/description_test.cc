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
  const Json rows = MatricesOf({alike, second, other, matrix("head", 5)}, Together::kExperts);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].at("bytes"), 6);
  EXPECT_EQ(rows[0].at("tensor"), "l0.experts.*.up.weight");
  EXPECT_EQ(rows[0].at("count"), 2);
  EXPECT_EQ(rows[2].at("bytes"), 5);
}

TEST(Description, LayersAreOneRowWhereAllElseIsEqual) {
  const auto matrix = [](const char* name, const char* format) {
    return Json{{"tensor", name}, {"format", format}, {"bytes", 7}};
  };
  const Json rows = MatricesOf({matrix("model.layers.0.q1.weight", "int4"), matrix("model.layers.10.q1.weight", "int4"),
                                matrix("model.layers.11.q1.weight", "int8"), matrix("blk.2.3.w", "int4")},
                               Together::kLayers);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], (Json{{"tensor", "model.layers.*.q1.weight"}, {"format", "int4"}, {"bytes", 14}, {"count", 2}}));
  EXPECT_EQ(rows[1].at("format"), "int8");
  EXPECT_EQ(rows[2].at("tensor"), "blk.*.*.w");
}

}  // namespace
}  // namespace tare::description_test
