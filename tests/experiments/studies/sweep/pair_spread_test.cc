// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/pair_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/sweep_cells.h"

namespace tare::pair_spread_test {
namespace {

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
              testing::StartsWith("perplexity:t,k=int4/token,perplexity,3,2,3,-5.4"));
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
}  // namespace tare::pair_spread_test
