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
          "At 4\\.00 bits per weight of quantized matrices, perplexity on text changes by \\+5\\.0. \\[.*\\] % with "
          "rtn\\.h5 \\(rtn\\) and \\+2\\.5. \\[.*\\] % with gptq\\.h5 \\(gptq\\) over 24 windows; the difference of "
          "gptq\\.h5 from rtn\\.h5 is -2\\.5. \\[.*\\] % \\(significant\\)\\.")));
  EXPECT_THAT(figure.caption,
              AllOf(HasSubstr("Change from m,"),
                    HasSubstr("m itself has perplexity 20.000 on text, in 16.00 bits per weight and 8.00 MB; n: 40 "
                              "tokens of perplexity:text.")));
}

// What the terminal prints below its tables. Changes in percent of 20: 5 and 10 by one method, 2.5 and 5 by the other.
TEST(MethodsTest, MeansOverCutsAreSaid) {
  Json sweep = SweepOf({VersionCells("m", 16, 20), VersionCells("rtn-0", 4, 21), VersionCells("rtn-1", 4, 22),
                        VersionCells("gptq-0", 8, 20.5), VersionCells("gptq-1", 8, 21)});
  for (const char* model : {"m", "rtn-0", "rtn-1", "gptq-0", "gptq-1"})
    sweep["sizes"].push_back({{"model", model}, {"bits_per_weight", 4.25}, {"megabytes", 2}});
  const auto group = [](const char* a, const char* b) { return Json{{"models", {a, b}}, {"alike", "cuts 0-1"}}; };
  sweep["over_cuts"] = {group("rtn-0", "rtn-1"), group("gptq-0", "gptq-1"), group("gptq-0", "gptq-1")};
  sweep["over_cuts"].push_back({{"models", {"rtn-0"}}});  // edited: no mean of one
  const std::vector<std::string> findings = LossesOfMethods(MaterialOf({sweep})).at(0).findings;
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[1],
            "Over 2 cuts of the calibration text, perplexity on text changes by +8 [-24, +39] % with rtn-0 .. "
            "rtn-1.");
  EXPECT_THAT(findings[2], HasSubstr(" changes by +3.8 [-12.1, +19.6] % with gptq-0 .. gptq-1."));
  EXPECT_EQ(findings[3],
            "Over 2 cuts of the calibration text, perplexity on text differs by -3.8 [-19.6, +12.1] % with gptq-0 .. "
            "gptq-1 minus rtn-0 .. rtn-1 (not significant).");
}

// A divergence is no share of anything.
TEST(MethodsTest, ADivergenceIsInNatsPerToken) {
  Json sweep = Versions();
  for (const char* model : {"m", "rtn.h5"}) {
    Json cell = DivergenceCell(model, "f32", 0, std::string_view(model) == "m" ? 0 : 0.01);
    cell["key"].update(
        {{"source", "m"}, {"weights", model == std::string("m") ? "weights of m" : "weights of rtn.h5"}});
    sweep["cells"].push_back(cell);
  }
  EXPECT_THAT(LossesOfMethods(MaterialOf({sweep})).at(0).findings,
              testing::Contains(HasSubstr("divergence on text changes by +1.00e-02 nats per token with rtn.h5 (rtn)")));
}

TEST(MethodsTest, OtherBitsAreAnotherSentence) {
  Json sweep = Versions();
  sweep["sizes"][2]["bits_per_weight"] = 3.25;
  sweep["sizes"][1].erase("quantized_bits");  // an older table
  const FigureData figure = LossesOfMethods(MaterialOf({sweep})).at(0);
  EXPECT_THAT(
      figure.findings,
      ElementsAre(AllOf(HasSubstr("At 4.25 bits per weight of all"), HasSubstr("rtn.h5 (rtn) over 24 windows.")),
                  AllOf(HasSubstr("At 4.00 bits per weight of quantized matrices"),
                        HasSubstr("(gptq) over 24 windows; the difference of gptq.h5 from rtn.h5 is "))));
}

// Two pairs, each of equally many bits, are the hypotheses: the first file has no part in the second.
TEST(MethodsTest, FilesOfEqualBitsAreCompared) {
  Json sweep = Versions(), more = SweepOf({VersionCells("rtn3.h5", 4, 23), VersionCells("gptq3.h5", 8, 22)});
  for (const Json& cell : more["cells"]) sweep["cells"].push_back(cell);
  for (const auto& [model, as] : {std::pair{"rtn3.h5", 1}, {"gptq3.h5", 2}}) {
    Json size = sweep["sizes"][static_cast<size_t>(as)];
    size.update({{"model", model}, {"quantized_bits", 3.0}});
    sweep["sizes"].push_back(size);
  }
  const Material material = MaterialOf({sweep});
  EXPECT_THAT(LossesOfMethods(material).at(0).findings,
              ElementsAre(HasSubstr("the difference of gptq.h5 from rtn.h5 is "),
                          HasSubstr("the difference of gptq3.h5 from rtn3.h5 is ")));
  const FigureData figure = Differences(material).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  EXPECT_EQ(figure.table.rows[1]["plan"], "gptq3.h5 - rtn3.h5");
  EXPECT_EQ(figure.table.rows[1]["windows"], 24);
}

TEST(MethodsTest, CalibrationOnTheEvaluatedTextIsSaid) {
  Json sweep = Versions();
  for (Json& cell : sweep["cells"]) cell["key"]["input"] = std::string(64, 'a');
  sweep["sizes"][2]["calibration"] = "held.txt, sha256 " + std::string(64, 'a') + ", 40 tokens in 1 windows";
  EXPECT_THAT(LossesOfMethods(MaterialOf({sweep})).at(0).findings,
              ElementsAre(AllOf(HasSubstr("rtn.h5 (rtn) and"), HasSubstr("gptq.h5 (gptq, calibrated on this text)"))));
}

// The costs say which differences are significant; those of files as stored are not said again.
TEST(MethodsTest, EachSentenceStandsOnce) {
  const FigureData figure = Differences(MaterialOf({Versions()})).at(0);
  EXPECT_EQ(figure.table.rows.size(), 1u);
  EXPECT_TRUE(figure.findings.empty());
  EXPECT_THAT(figure.caption, StartsWith("A file's change from m minus that of the other file under the same plan,"));
}

// Models that are no versions of one, and tables without sizes, have no figure.
TEST(MethodsTest, WithoutSizesThereIsNone) {
  Json sweep = Versions();
  sweep.erase("sizes");
  EXPECT_TRUE(LossesOfMethods(MaterialOf({sweep})).empty());
  EXPECT_TRUE(LossesOfMethods(MaterialOf({SweepOf({CellsOf("a", {{16, 20}, {4, 30}})})})).empty());
}

// Side by side over their bits, though all tensors take other bits.
TEST(MethodsTest, TheDrawingHasAColourForEachMethod) {
  Json sweep = Versions();
  sweep["sizes"][2]["bits_per_weight"] = 4.5;
  const Json specification = SpecificationOf(LossesOfMethods(MaterialOf({sweep})).at(0));
  const Json& rows = specification["data"]["values"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["at"], rows[1]["at"]);
  EXPECT_EQ(specification["spec"]["encoding"]["x"]["field"], "at");
  EXPECT_EQ(specification["spec"]["encoding"]["color"]["scale"]["domain"], Json::array({"rtn", "gptq"}));
}

}  // namespace
}  // namespace tare::methods_test
