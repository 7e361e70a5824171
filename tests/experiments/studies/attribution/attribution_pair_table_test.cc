// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/attribution_pair_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiments/tasks/divergence.h"
#include "tests/support/sweep_cells.h"

namespace tare {
namespace {

using ::testing::ElementsAre;

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
                          "  part                        A           B  B less A",
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
}  // namespace tare
