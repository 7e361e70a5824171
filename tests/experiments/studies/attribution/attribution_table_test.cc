// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "experiments/tasks/perplexity.h"
#include "tests/support/sweep_cells.h"

namespace tare::attribution_table_test {
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
      ElementsAre("", "divergence:t, kld", "  unquantized 0.00e+00, the whole plan 5.00e-03",
                  "  part              alone                               taken out", "  attn_logits[l0,h7,m2]",
                  "                    +8.74e-03 [+8.03e-03, +9.20e-03] *  +9.89e-03 +/- 9.6e-04 *",
                  "  q                 -2e-05 [-7.0e-04, +6.0e-04]         +0.00e+00 +/- 3.0e-04",
                  "  sum of alone      +8.70e-03 [+8.00e-03, +9.20e-03] *",
                  "  left over         -3.70e-03 [-4.00e-03, -3.00e-03] *",
                  "  the whole plan    +5.00e-03 [+4.80e-03, +5.20e-03] *"));
  const std::string legend = AttributionLegend(OneFigure());
  EXPECT_THAT(legend, HasSubstr("after Holm over 7 changes of each task"));
  EXPECT_FALSE(legend.contains("too few"));
  for (const std::string& line : Lines(legend)) EXPECT_LE(line.size(), 80u) << line;
}

// What is taken out was not run: no column, no rows, and null for programs.
TEST(AttributionTable, OfPartsAlone) {
  std::vector<Attribution> alone = OneFigure();
  for (PartEffect& part : alone[0].parts) part.taken_out.reset();
  EXPECT_THAT(Lines(AttributionTable(alone)),
              ElementsAre("", "divergence:t, kld", "  unquantized 0.00e+00, the whole plan 5.00e-03",
                          "  part              alone", "  attn_logits[l0,h7,m2]",
                          "                    +8.74e-03 [+8.03e-03, +9.20e-03] *",
                          "  q                 -2e-05 [-7.0e-04, +6.0e-04]",
                          "  sum of alone      +8.70e-03 [+8.00e-03, +9.20e-03] *",
                          "  left over         -3.70e-03 [-4.00e-03, -3.00e-03] *",
                          "  the whole plan    +5.00e-03 [+4.80e-03, +5.20e-03] *"));
  EXPECT_EQ(Lines(AttributionCsv(alone, kPlan)).size(), 1u + 3 + 2);
  EXPECT_TRUE(AttributionJson(alone, "m", kPlan, "site")["figures"][0]["parts"][0].at("taken_out").is_null());
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
  const auto json = AttributionJson(OneFigure(), "m", kPlan, "site");
  EXPECT_EQ(json.at("schema"), "tare.attribution/1");
  const auto& figure = json.at("figures").at(0);
  EXPECT_EQ(figure.at("parts").at(1).at("without_plan"), "q=int4/token,q=f32");
  EXPECT_EQ(figure.at("parts").at(0).at("alone").at("low"), 0.00803);
  EXPECT_EQ(figure.at("left_over").at("significant"), true);
  EXPECT_EQ(figure.at("sum").at("value"), 0.0087);
}

std::vector<AttributionPair> Pairs() {
  Comparison part, whole;
  part.value = 0.0063, part.error = 0.0002, part.interval = {0.0059, 0.0067}, part.p = part.p_holm = 0.01;
  whole.value = -0.011, whole.error = 0.02;
  return {{.task = "divergence:t",
           .figure = kDivergenceTask.figures[0],
           .parts = {{.part = "o_proj.w", .first = 0.00244, .second = 0.00874, .difference = part},
                     {.part = "attn_logits,x", .first = {}, .second = 0.001, .difference = {}}},
           .whole = {.part = "", .first = 0.041, .second = 0.03, .difference = whole}}};
}

TEST(AttributionPairTable, FitsEightyColumns) {
  const std::string text = AttributionPairTable(Pairs(), "int4", {"standard", "differential"});
  for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(Lines(text),
              ElementsAre("", "divergence:t, kld, of each part of int4 alone", "  A: standard, B: differential",
                          "  part                        A           B  B minus A",
                          "  o_proj.w            +2.44e-03   +8.74e-03  +6.30e-03 [+5.90e-03, +6.70e-03] *",
                          "  attn_logits,x            none   +1.00e-03",
                          "  the whole plan      +4.10e-02   +3.00e-02  -1.1e-02 +/- 2.0e-02"));
}

TEST(AttributionPairTable, ProgramsGetEveryRow) {
  EXPECT_THAT(
      Lines(AttributionPairCsv(Pairs())),
      ElementsAre("task,figure,part,first,second,value,stderr,low,high,gained,lost,p,p_holm,detectable,for_half",
                  "divergence:t,kld,o_proj.w,0.00244,0.00874,0.0063,2e-04,0.0059,0.0067,,,0.01,0.01,,",
                  "divergence:t,kld,\"attn_logits,x\",,0.001,,,,,,,,,,",
                  "divergence:t,kld,,0.041,0.03,-0.011,0.02,,,,,,,,"));
  const nlohmann::ordered_json json = AttributionPairJson(Pairs());
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0].at("part"), "o_proj.w");
  EXPECT_EQ(json[0].at("difference").at("value"), 0.0063);
  EXPECT_TRUE(json[1].at("first").is_null());
  EXPECT_TRUE(json[1].at("difference").is_null());
  EXPECT_TRUE(json[2].at("part").is_null());
}

}  // namespace

}  // namespace tare::attribution_table_test
