// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/figures/figures.h"
#include "tests/support/report_material.h"

namespace tare::methods_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// A version of "m" as it is stored: its losses are those of `losses` bits.
Json VersionCells(const std::string& model, int losses, double perplexity) {
  Json cells = CellsOf(model, {{losses, perplexity}}, "attn_logits", "weights of " + model);
  cells[0]["key"]["plan"] = "f32";
  cells[0]["key"]["source"] = "m";
  return cells;
}

Json Versions() {
  Json sweep = SweepOf({VersionCells("m", 16, 20), VersionCells("rtn.h5", 4, 21), VersionCells("gptq.h5", 8, 20.5)});
  const auto size = [](const char* model, double bits, double megabytes) {
    return Json{{"model", model}, {"bits_per_weight", bits}, {"megabytes", megabytes}};
  };
  Json rtn = size("rtn.h5", 4.25, 2), gptq = size("gptq.h5", 4.25, 2);
  rtn.update({{"plan", "weights=int4/group64"}, {"method", "rtn"}});
  gptq.update({{"plan", "weights=int4/group64"}, {"method", "gptq"}, {"calibration", "held.txt"}});
  rtn["quantized_bits"] = gptq["quantized_bits"] = 4.0;
  sweep["sizes"] = {size("m", 16, 8), rtn, gptq};
  return sweep;
}

TEST(MethodsTest, TheSentenceSaysWhatEachMethodCosts) {
  const FigureData figure = LossesOfMethods(MaterialOf({Versions()})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  const Json& rtn = figure.table.rows[0];
  EXPECT_EQ(rtn["model"], "rtn.h5");
  EXPECT_EQ(rtn["plan"], "weights=int4/group64");
  EXPECT_EQ(rtn["method"], "rtn");
  EXPECT_TRUE(rtn["calibration"].is_null());
  EXPECT_EQ(figure.table.rows[1]["calibration"], "held.txt");
  EXPECT_EQ(rtn["bits"], 4.25);
  EXPECT_EQ(rtn["megabytes"], 2.0);
  EXPECT_DOUBLE_EQ(rtn["change"].get<double>(), 100 * (21.0 - 20) / 20);  // percent of the source's
  EXPECT_LT(rtn["low"].get<double>(), rtn["change"].get<double>());
  EXPECT_GT(rtn["high"].get<double>(), rtn["change"].get<double>());
  EXPECT_THAT(
      figure.findings,
      ElementsAre(MatchesRegex(
          "At 4\\.00 bits per weight of quantized matrices \\(4\\.25 of all tensors\\), perplexity on text changes by "
          "\\+5\\.0. \\[.*\\] % with rtn\\.h5 \\(rtn\\) and \\+2\\.5. \\[.*\\] % with gptq\\.h5 \\(gptq\\); gptq\\.h5 "
          "loses 0\\.500 \\[.*\\] less perplexity on text than rtn\\.h5 \\(significant\\)\\.")));
  EXPECT_THAT(figure.caption,
              AllOf(HasSubstr("Change from m,"),
                    HasSubstr("m itself has perplexity 20.000 on text, in 16.00 bits per weight and 8.00 MB.")));
}

TEST(MethodsTest, OtherBitsAreAnotherSentence) {
  Json sweep = Versions();
  sweep["sizes"][2]["bits_per_weight"] = 3.25;
  sweep["sizes"][1].erase("quantized_bits");  // an older table
  const FigureData figure = LossesOfMethods(MaterialOf({sweep})).at(0);
  EXPECT_THAT(figure.findings,
              ElementsAre(AllOf(HasSubstr("At 4.25 bits per weight of all"), HasSubstr("rtn.h5 (rtn).")),
                          AllOf(HasSubstr("(3.25 of all"), HasSubstr("gptq.h5 (gptq); gptq.h5 loses"))));
}

// The costs say which differences are significant; those of files as stored are not said again.
TEST(MethodsTest, EachSentenceStandsOnce) {
  const FigureData figure = Differences(MaterialOf({Versions()})).at(0);
  EXPECT_EQ(figure.table.rows.size(), 1u);
  EXPECT_TRUE(figure.findings.empty());
  EXPECT_THAT(figure.caption, StartsWith("A file's change from m minus that of rtn.h5 under the same plan,"));
}

// Models that are no versions of one, and tables without sizes, have no figure.
TEST(MethodsTest, WithoutSizesThereIsNone) {
  Json sweep = Versions();
  sweep.erase("sizes");
  EXPECT_TRUE(LossesOfMethods(MaterialOf({sweep})).empty());
  EXPECT_TRUE(LossesOfMethods(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 30}})})})).empty());
}

TEST(MethodsTest, TheDrawingHasAMarkForEachFile) {
  const Json specification = SpecificationOf(LossesOfMethods(MaterialOf({Versions()})).at(0));
  EXPECT_EQ(specification["data"]["values"].size(), 2u);
  EXPECT_EQ(specification["spec"]["encoding"]["color"]["scale"]["domain"], Json::array({"rtn.h5", "gptq.h5"}));
}

}  // namespace
}  // namespace tare::methods_test
