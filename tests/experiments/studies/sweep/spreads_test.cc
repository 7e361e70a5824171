// SPDX-License-Identifier: Apache-2.0
// Versions of a model by the cuts of their calibration text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>

#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/sweep_cells.h"

namespace tare::spreads_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CutSpread, OfThreeCuts) {
  const std::vector<SweepCell> cells{Perplexity("q-0", "f32", 20), Perplexity("q-1", "f32", 23),
                                     Perplexity("q-2", "f32", 17), Perplexity("other", "f32", 90)};
  const std::vector<CutSpread> spreads = SpreadOverCuts(cells, CompareCells(cells), {{{"q-0", "q-1", "q-2"}, ""}});
  ASSERT_EQ(spreads.size(), 1u);  // nll is in no table
  EXPECT_THAT(spreads[0].values, ElementsAre(20, 23, 17));
  EXPECT_NEAR(spreads[0].value.deviation, 3, 1e-12);
  EXPECT_NEAR(spreads[0].value.interval.high, 20 + 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_FALSE(spreads[0].change);
  EXPECT_THAT(CutSpreadTable(spreads), HasSubstr("q-0 .. q-2"));
  EXPECT_EQ(TableJson(CutSpreads(spreads))[0]["cuts"], 3);
}

TEST(CutSpread, ChangesUnderAPlan) {
  std::vector<SweepCell> cells;
  for (const auto& [model, stored, rounded] : {std::tuple{"a", 20.0, 21.0}, {"b", 22.0, 25.0}}) {
    cells.push_back(Perplexity(model, "f32", stored));
    cells.push_back(Perplexity(model, "k=int4/token", rounded));
  }
  const std::vector<CutSpread> spreads = SpreadOverCuts(cells, CompareCells(cells), {{{"a", "b"}, ""}});
  ASSERT_EQ(spreads.size(), 2u);
  EXPECT_EQ(spreads[1].plan, "k=int4/token");
  EXPECT_THAT(spreads[1].changes, ElementsAre(1, 3));
  ASSERT_TRUE(spreads[1].change);
  EXPECT_NEAR(spreads[1].change->mean, 2, 1e-12);
}

// A model lacks the task, or there is no group: nothing to say.
TEST(CutSpread, OnlyWhatAllHave) {
  const std::vector<SweepCell> cells{Perplexity("a", "f32", 20), Perplexity("b", "q=int4/token", 20)};
  EXPECT_THAT(SpreadOverCuts(cells, CompareCells(cells), {{{"a", "b"}, ""}}), IsEmpty());
  EXPECT_EQ(CutSpreadTable({}), "");
}

std::vector<ComparedPair> ThreePairs();

// Three methods on three cuts: by 2, 5, -1 and by 10, 10.5, 9.5 higher than the first, and a fourth on other cuts.
std::vector<CutSpread> Methods() {
  std::vector<SweepCell> cells;
  std::vector<CutModels> groups;
  const auto add = [&](const std::string& method, std::vector<double> values, const char* alike) {
    CutModels& group = groups.emplace_back(CutModels{.names = {}, .alike = alike});
    for (size_t cut = 0; cut < values.size(); ++cut) {
      group.names.push_back(Formatted("{}-{}", method, cut));
      cells.push_back(Perplexity(group.names.back().c_str(), "f32", values[cut]));
    }
  };
  add("a", {20, 30, 40}, "int4; text; cuts 0-2");
  add("b", {22, 35, 39}, "int4; text; cuts 0-2");
  add("c", {30, 40.5, 49.5}, "int4; text; cuts 0-2");
  add("d", {22, 35, 39}, "int4; text; cuts 1-3");
  return SpreadOverCuts(cells, CompareCells(cells), groups);
}

// b - a: mean 2, deviation 3, t of two degrees 1.1547, p 0.3675. c - a: 10, 0.5, t 34.64, p 0.0008321. c - b: 8, 2.5.
TEST(CutDifference, OfMethodsOnTheSameCutsIsPaired) {
  const std::vector<PairSpread> differences = DifferencesOverCuts(Methods());
  ASSERT_EQ(differences.size(), 3u);
  const PairSpread &b = differences[0], &c = differences[1];
  EXPECT_EQ(b.plan, "b-0 .. b-2 minus a-0 .. a-2");
  EXPECT_THAT(b.differences, ElementsAre(2, 5, -1));
  EXPECT_NEAR(b.of_pairs.interval.low, 2 - 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(b.p.value(), 0.367544, 1e-5);
  EXPECT_NEAR(c.p.value(), 0.000832, 1e-5);
  EXPECT_DOUBLE_EQ(c.p_holm.value(), 3 * *c.p);
  EXPECT_TRUE(c.Significant());
  EXPECT_FALSE(b.Significant());
  const std::string text = CutDifferenceTable(differences);
  for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(text, HasSubstr("\n  b-0 .. b-2 minus a-0 .. a-2          3.000  +2.0 [-5.5, +9.5]\n"));
  EXPECT_THAT(text, HasSubstr("  0.500  +10.00 [+8.76, +11.24] *\n"));
  EXPECT_THAT(text, HasSubstr("after Holm over 3 differences\n"));
  EXPECT_EQ(TableJson(PairSpreads(differences))[1]["p_holm"], *c.p_holm);
  EXPECT_FALSE(TableJson(PairSpreads(SpreadOverPairs(ThreePairs())))[0].contains("p"));  // nothing tests seeds
}

// Where all cuts differ by the same, there is no error and nothing to test.
TEST(CutDifference, WithoutAnErrorThereIsNoTest) {
  std::vector<CutSpread> spreads = Methods();
  spreads.resize(2);
  spreads[1].values = {21, 31, 41};
  ASSERT_EQ(DifferencesOverCuts(spreads).size(), 1u);
  EXPECT_FALSE(DifferencesOverCuts(spreads)[0].p);
  spreads[0].values = {0.24, 0.31, 0.51};  // the same difference, but for rounding
  spreads[1].values = {0.23, 0.30, 0.50};
  EXPECT_FALSE(DifferencesOverCuts(spreads)[0].p);
  spreads[1].values.pop_back();  // of a table that was edited
  EXPECT_THAT(DifferencesOverCuts(spreads), IsEmpty());
  EXPECT_EQ(CutDifferenceTable({}), "");
}

TEST(CutSpread, ModelsAreGroupedByTheirOrigin) {
  const TemporaryFolder folder;
  WriteCalibrationIds(folder / "ids.h5");
  std::vector<std::filesystem::path> models{GoldenFolder("llama-mha")};
  const auto make = [&](const char* name, const char* method, size_t index, size_t count, int64_t tokens = 0) {
    QuantizeJob job{.model = GoldenFolder("llama-mha"),
                    .plan = Plan::Parse("weights=int4/channel"),
                    .out = folder / name,
                    .method = ParseMethod(method),
                    .calibration = folder / "ids.h5",
                    .windows = {.tokens = tokens}};
    job.calibration.cut = {.index = index, .count = count};
    Quantize(job, {});
    models.push_back(job.out);
  };
  make("g1.h5", "gptq", 1, 2);
  make("g0.h5", "gptq", 0, 2);
  make("whole.h5", "gptq", 0, 1);
  make("third.h5", "gptq", 0, 3);  // of other cuts, and alone
  make("q0.h5", "rtn+quantease", 0, 2);
  make("few.h5", "gptq", 1, 2, 100);  // of other windows
  make("q1.h5", "rtn+quantease", 1, 2);
  make("a0.h5", "awq", 0, 2);  // two steps see the text
  make("a1.h5", "awq", 1, 2);
  const std::vector<CutModels> groups = ModelsByCuts(models);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_THAT(groups[0].names, ElementsAre("a0.h5", "a1.h5"));
  EXPECT_THAT(groups[1].names, ElementsAre("g0.h5", "g1.h5"));
  EXPECT_THAT(groups[2].names, ElementsAre("q0.h5", "q1.h5"));
  EXPECT_EQ(groups[0].alike, groups[1].alike);  // but for the method
  EXPECT_EQ(groups[2].alike, groups[1].alike);
  EXPECT_THAT(groups[0].alike, testing::EndsWith("cuts 0-1"));
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A comparison of two models with these differences of perplexity at 8 and 4 bits.
Json SweepWith(const std::string& seed, double at_8, double at_4) {
  Json cells = Json::array();
  const auto add = [&](const char* model, const char* plan, const Json& differences) {
    cells.push_back({{"model", model},
                     {"task", "perplexity:t"},
                     {"key",
                      {{"model", model},
                       {"weights", model + seed},
                       {"config.json", model},
                       {"plan", plan},
                       {"input", "i"},
                       {"window", 20}}},
                     {"differences", differences}});
  };
  const auto of = [](double value) {
    return Json::array({{{"figure", "perplexity"}, {"value", value}}, {{"figure", "nll"}, {"value", value / 30}}});
  };
  for (const char* plan : {"f32", "k=int8/token", "k=int4/token"}) add("a", plan, Json::array());
  add("b", "f32", Json::array());
  add("b", "k=int8/token", of(at_8));
  add("b", "k=int4/token", of(at_4));
  return {{"cells", cells}};
}

std::vector<ComparedPair> ThreePairs() {
  return {{"one", SweepWith("1", 0.1, 2)}, {"two", SweepWith("2", 0.1, 5)}, {"three", SweepWith("3", 0.4, -1)}};
}

std::string Refusal(const std::vector<ComparedPair>& pairs) {
  try {
    SpreadOverPairs(pairs);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

// 2, 5, -1: mean 2, deviation 3; t of two degrees 4.302653, over sqrt(3).
TEST(PairSpread, OfThreePairs) {
  const std::vector<PairSpread> spreads = SpreadOverPairs(ThreePairs());
  ASSERT_EQ(spreads.size(), 2u);  // nll is in no table
  EXPECT_EQ(spreads[1].plan, "k=int4/token");
  EXPECT_THAT(spreads[1].differences, ElementsAre(2, 5, -1));
  EXPECT_NEAR(spreads[1].of_pairs.mean, 2, 1e-12);
  EXPECT_NEAR(spreads[1].of_pairs.deviation, 3, 1e-12);
  EXPECT_NEAR(spreads[1].of_pairs.interval.low, 2 - 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(spreads[1].of_pairs.interval.high, 2 + 4.302653 * 3 / std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(spreads[0].of_pairs.mean, 0.2, 1e-12);
}

TEST(PairSpread, IsShownInEightyColumns) {
  const std::vector<PairSpread> spreads = SpreadOverPairs(ThreePairs());
  const std::string text = PairSpreadTable(spreads);
  for (const std::string& line : Lines(text)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(text, HasSubstr("\nover 3 pairs: the difference of their changes\n\nperplexity:t, perplexity\n"));
  EXPECT_THAT(text, HasSubstr("\n  k=int4/token                         3.000  +2.0 [-5.5, +9.5]\n"));
  EXPECT_THAT(Lines(TableCsv(PairSpreads(spreads)))[2],
              testing::StartsWith("perplexity:t,k=int4/token,,perplexity,3,2,3,-5.4"));
  EXPECT_THAT(TableCsv(PairSpreads(spreads)), HasSubstr(",2 5 -1\n"));
  EXPECT_EQ(TableJson(PairSpreads(spreads)).at(1).at("deviation"), 3.0);
  EXPECT_EQ(PairSpreadTable({}), "");
}

TEST(PairSpread, OtherComparisonsAreNamed) {
  std::vector<ComparedPair> pairs = ThreePairs();
  pairs[2].sweep = pairs[1].sweep;
  EXPECT_THAT(Refusal(pairs),
              HasSubstr("three: got the weights of a as in two, expected a model trained from another"));
  pairs = ThreePairs();
  for (Json& cell : pairs[1].sweep["cells"]) cell["key"]["window"] = 30;
  EXPECT_THAT(Refusal(pairs), HasSubstr("two: perplexity:t: got another window than one, expected the same"));
  pairs = ThreePairs();
  for (ComparedPair& pair : pairs) {
    for (Json& cell : pair.sweep["cells"]) cell["key"]["tokenizer.json"] = pair.where == "three" ? "another" : "one";
  }
  EXPECT_THAT(Refusal(pairs), HasSubstr("three: perplexity:t: got another tokenizer.json than one"));
  pairs = ThreePairs();
  pairs[2].sweep["cells"].erase(5);
  EXPECT_THAT(Refusal(pairs), HasSubstr("three: got no perplexity:t under k=int4/token, expected all that one has"));
  pairs = ThreePairs();
  for (Json& cell : pairs[1].sweep["cells"]) cell["key"]["config.json"] = cell["model"] == "a" ? "b" : "a";
  EXPECT_THAT(Refusal(pairs), HasSubstr("two: got the two models in the other order than one"));
  pairs = ThreePairs();
  pairs[1].sweep["cells"][5].erase("key");
  EXPECT_THAT(Refusal(pairs), HasSubstr("was it made by another version"));
}

TEST(PairSpread, FoldersWithoutAComparisonAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(Call([&] { ReadComparedPair(folder.path()); }),
              testing::ThrowsMessage<Error>(HasSubstr("got no compare.json, expected a folder")));
  PutFile(folder / "compare.json", R"({"schema":"tare.compare/1"})");
  EXPECT_THAT(Call([&] { ReadComparedPair(folder.path()); }),
              testing::ThrowsMessage<Error>(HasSubstr("was it made by another version")));
  Json whole{{"sweep", SweepWith("1", 0, 0)}};
  PutFile(folder / "compare.json", whole.dump());
  EXPECT_EQ(ReadComparedPair(folder.path()).sweep.at("cells").size(), 6u);
}

}  // namespace
}  // namespace tare::spreads_test
