// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "experiments/tasks/divergence.h"
#include "tests/support/sweep_cells.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Comparison Of(double value, double error, Interval interval, double p) {
  Comparison c;
  c.value = value, c.error = error, c.interval = interval, c.p = p, c.p_holm = p;
  return c;
}

const Plan kPlan = Plan::Parse("q=int4/token,attn_logits[l0]=int4/row");

std::vector<Attribution> OneFigure() {
  const PlanPart q{"q", Plan::Parse("q=int4/token"), Plan::Parse("q=int4/token,q=f32")};
  const PlanPart logits{"attn_logits[l0,h7,m2]", Plan::Parse("attn_logits[l0]=int4/row"), Plan::Parse("f32")};
  return {{.task = "divergence:t",
           .figure = kDivergenceTask.figures[0],
           .baseline = 0,
           .whole = 0.005,
           .change = Of(0.005, 0.0001, {0.0048, 0.0052}, 0.001),
           .parts = {{logits, Of(0.00874, 0.0003, {0.00803, 0.0092}, 0.01), Of(0.00989, 0.00096, {0.008, 0.012}, 0.01)},
                     {q, Of(-2e-5, 0.0003, {-7e-4, 6e-4}, 0.9), Of(0, 0.0003, {-7e-4, 6e-4}, 0.9)}},
           .sum = Of(0.0087, 0.0003, {0.008, 0.0092}, 0.01),
           .left_over = Of(-0.0037, 0.0002, {-0.004, -0.003}, 0.04)}};
}

TEST(AttributionTable, FitsEightyColumns) {
  const std::string text = AttributionTable(OneFigure());
  for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(
      Lines(text),
      ElementsAre("", "divergence:t, kld", "  f32 0.00e+00, the whole plan 5.00e-03",
                  "  part              alone                               taken out", "  attn_logits[l0,h7,m2]",
                  "                    +8.74e-03 [+8.03e-03, +9.20e-03] *  +9.89e-03 +/- 9.6e-04 *",
                  "  q                 -2e-05 [-7.0e-04, +6.0e-04]         +0.00e+00 +/- 3.0e-04",
                  "  sum of alone      +8.70e-03 [+8.00e-03, +9.20e-03] *",
                  "  left over         -3.70e-03 [-4.00e-03, -3.00e-03] *",
                  "  the whole plan    +5.00e-03 [+4.80e-03, +5.20e-03] *"));
  const std::string legend = AttributionLegend(OneFigure());
  EXPECT_THAT(legend, HasSubstr("after Holm over 7 changes\n"));
  EXPECT_FALSE(legend.contains("too few"));
  for (const std::string& line : Lines(legend)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(AttributionTable, CsvHasEveryEffect) {
  const std::vector<std::string> lines = Lines(AttributionCsv(OneFigure(), kPlan));
  ASSERT_EQ(lines.size(), 1u + 3 + 2 * 2);
  EXPECT_THAT(lines[1], StartsWith("divergence:t,kld,plan,,\"q=int4/token,attn_logits[l0]=int4/row\",0.005,1e-04,"));
  EXPECT_EQ(lines[2],
            "divergence:t,kld,alone,\"attn_logits[l0,h7,m2]\",attn_logits[l0]=int4/row,0.00874,3e-04,0.00803,0.0092,,,"
            "0.01,0.01,,");
  EXPECT_THAT(lines[7], StartsWith("divergence:t,kld,left_over,,"));
  for (const std::string& line : lines) EXPECT_GE(std::ranges::count(line, ','), 14) << line;
}

TEST(AttributionTable, JsonHasThePlansOfEachPart) {
  const auto json = AttributionJson(OneFigure(), "m", kPlan, "site", {.draws = 10, .seed = 3});
  EXPECT_EQ(json.at("schema"), "tare.attribution/1");
  EXPECT_EQ(json.at("seed"), 3);
  const auto& figure = json.at("figures").at(0);
  EXPECT_EQ(figure.at("parts").at(1).at("without_plan"), "q=int4/token,q=f32");
  EXPECT_EQ(figure.at("parts").at(0).at("alone").at("low"), 0.00803);
  EXPECT_EQ(figure.at("left_over").at("significant"), true);
  EXPECT_EQ(figure.at("sum").at("value"), 0.0087);
}

}  // namespace
}  // namespace tare
