// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::figures_frontier_test {
namespace {

using ::testing::ElementsAre;

TEST(FrontierTest, HasPredictedMeasuredAndAllowedLosses) {
  const FigureData figure = Frontiers(MaterialOf({SearchOf("m")})).at(0);
  EXPECT_THAT(figure.table.rows,
              ElementsAre(ElementsAre("m", "predicted", 0, 16.0, 0.0, nullptr, nullptr, nullptr),
                          ElementsAre("m", "predicted", 1, 8.0, 0.01, nullptr, nullptr, nullptr),
                          ElementsAre("m", "predicted", 2, 4.0, 0.5, nullptr, nullptr, nullptr),
                          ElementsAre("m", "measured", 1, 8.0, 0.0125, 0.01, 0.015, "q=int8/token"),
                          ElementsAre("m", "measured", 2, 4.0, 0.75, nullptr, nullptr, "q=int4/token"),
                          ElementsAre("m", "allowed", nullptr, 16.0, 0.02, nullptr, nullptr, nullptr),
                          ElementsAre("m", "allowed", nullptr, 4.0, 0.02, nullptr, nullptr, nullptr)));
  EXPECT_THAT(figure.findings,
              ElementsAre("The cheapest measured plan of m that loses at most 0.02 nats per token has "
                          "8.00 bits per operand and loses 0.0125 [0.01, 0.015]; the prediction was 0.01."));
}

}  // namespace
}  // namespace tare::figures_frontier_test
