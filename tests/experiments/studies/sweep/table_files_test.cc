// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/table_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sweep_cells.h"

namespace tare {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Csv(const std::vector<SweepCell>& cells) {
  return Lines(SweepCsv(cells, CompareCells(cells)));
}

TEST(TableFiles, ARowForEveryFigure) {
  const std::vector<std::string> lines =
      Csv({Perplexity("a", "f32", 20.5), Perplexity("a", "q=int4/token,k=int4/token", 21.75),
           Choice("f32", "1100", "1111")});
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_THAT(lines[0], StartsWith("model,task,site,format,granularity,bits,plan,executed,figure,value,stderr,low,high,"
                                   "change,change_stderr,change_low,change_high,n,gained,lost,p,p_holm,"));
  EXPECT_EQ(lines[1], "a,perplexity:t,,,,16,f32,0,perplexity,20.5,,,,,,,,99" + std::string(17, ','));
  EXPECT_EQ(lines[2], "a,perplexity:t,,,,16,f32,0,nll,3,0.5,,,,,,,99" + std::string(17, ','));
  EXPECT_EQ(lines[3],
            "a,perplexity:t,\"q,k\",int4,token,4,\"q=int4/token,k=int4/token\",0,perplexity,21.75,,,,1.25,,,,99" +
                std::string(17, ','));
  EXPECT_EQ(lines[5].substr(0, 52), "m,choice:c,,,,16,f32,0,acc,0.5,0.25,0.15003898915214");
  EXPECT_EQ(std::ranges::count(lines[0], ','), 34);
  EXPECT_EQ(std::ranges::count(lines[5], ','), 34);
}

// acc: none gained and six lost of eight, p = 2 / 2^6, twice that by Holm over acc and acc_norm.
TEST(TableFiles, ChangesCarryTheirEvidence) {
  const std::vector<SweepCell> cells = {Choice("f32", "11111110", "11111111"),
                                        Choice("attn_logits=int4/row", "10000000", "11111111")};
  EXPECT_THAT(Csv(cells)[3], HasSubstr(",8,0,6,0.03125,0.0625,"));
  const nlohmann::ordered_json json = SweepJson(cells, CompareCells(cells), {.draws = 10000, .seed = 7});
  EXPECT_EQ(json["schema"], "tare.sweep/3");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["draws"], 10000);
  EXPECT_TRUE(json["cells"][0]["changes"].empty());
  const nlohmann::ordered_json& acc = json["cells"][1]["changes"][0];
  EXPECT_EQ(acc["figure"], "acc");
  EXPECT_EQ(acc["value"], -0.75);
  EXPECT_EQ(acc["gained"], 0);
  EXPECT_EQ(acc["lost"], 6);
  EXPECT_EQ(acc["p"], 0.03125);
  EXPECT_EQ(acc["p_holm"], 0.0625);
  EXPECT_EQ(acc["significant"], false);
  EXPECT_EQ(acc["too_few"], false);
  EXPECT_EQ(json["cells"][1]["changes"][1]["too_few"], true);
}

TEST(TableFiles, DropsNameTheModelThatTheyAreAgainst) {
  const std::vector<SweepCell> cells = {
      Choice("f32", "1111", "1111", "a"), Choice("attn_logits=int4/row", "1100", "1111", "a"),
      Choice("f32", "1111", "1111", "b"), Choice("attn_logits=int4/row", "1110", "1111", "b")};
  const nlohmann::ordered_json json = SweepJson(cells, CompareCells(cells), {});
  EXPECT_TRUE(json["cells"][1]["differences"].empty());
  const nlohmann::ordered_json& acc = json["cells"][3]["differences"][0];
  EXPECT_EQ(acc["against"], "a");
  EXPECT_EQ(acc["value"], 0.25);
  EXPECT_EQ(acc["gained"], 1);
  EXPECT_THAT(Csv(cells)[7], HasSubstr(",a,0.25,0.25,"));
}

}  // namespace
}  // namespace tare
