// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/file/json.h"
#include "tests/support/sweep_cells.h"

namespace tare::search_table_test {
namespace {

using ::testing::HasSubstr;

// Two parts of equal cost, of which the answer leaves one at 16 bits.
Search Example() {
  Search search;
  search.model = "m";
  search.within = 0.5;
  for (const int layer : {0, 1}) {
    SearchPart part{
        .name = layer == 0 ? "q[l0]" : "q[l1]", .site = Site::kQ, .layer = layer, .operands = 10, .levels = {}};
    part.levels = {{"f32", 16, Plan(), {160, 0}}, {"int4/token", 4, Plan(), {40, layer == 0 ? 0.25 : 1}}};
    search.parts.push_back(part);
  }
  search.frontier = Frontier(search.parts);
  const std::vector<SweepCell> cells = {Perplexity("m", "f32", 20), Perplexity("m", "q[l0]=int4/token", 20.25),
                                        Perplexity("m", "q=int4/token", 22)};
  search.verified = {PointOf(1, "q[l0]=int4/token", cells), PointOf(2, "q=int4/token", cells)};
  return search;
}

TEST(SearchTableTest, ShowsMeasuredPointsAndTheAnswer) {
  const std::string text = SearchTable(Example());
  EXPECT_THAT(text, HasSubstr("m: 2 parts, a frontier of 2 steps from 16 to 4.00 bits per operand\n"));
  EXPECT_THAT(text, HasSubstr("\n  step 1           10.00   2.50e-01  2.50e-01 the answer\n"));
  EXPECT_THAT(text, HasSubstr("\n  step 2            4.00   1.25e+00  2.00e+00 beyond\n"));
  EXPECT_THAT(text, HasSubstr("\nbits by layer\n  q               4 16\n"));
  EXPECT_THAT(text, HasSubstr("\nwithin 0.5 nats per token, 10.00 bits per operand:\nq[l0]=int4/token\n"));
}

TEST(SearchTableTest, ForPrograms) {
  const std::vector<std::string> lines = Lines(SearchCsv(Example()));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1], "0,,,16,0,,,,,,");
  EXPECT_EQ(lines[2], "1,q[l0],int4/token,10,0.25,0.25,,,,1,q[l0]=int4/token");
  EXPECT_EQ(lines[3], "2,q[l1],int4/token,4,1.25,2,,,,0,q=int4/token");
  const nlohmann::ordered_json json = SearchJson(Example());
  EXPECT_EQ(json.at("plan"), "q[l0]=int4/token");
  EXPECT_EQ(json.at("frontier").at(2).at("part"), "q[l1]");
  EXPECT_EQ(json.at("verified").at(1).at("tasks").at(0).at("change").at("value"), 2);
}

}  // namespace
}  // namespace tare::search_table_test
