// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "experiments/report/figures/figures.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::figures_test {
namespace {

TEST(FiguresTest, EachKindHasItsSpecification) {
  std::set<std::string> kinds, files;
  for (const FigureKind& kind : kFigureKinds) kinds.emplace(kind.name);
  for (const auto& entry : std::filesystem::directory_iterator(TARE_SOURCE_DIR "/experiments/report/figures")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".json" && name != "style") files.insert(name);
  }
  EXPECT_EQ(kinds, files);
}

TEST(FiguresTest, NothingMakesNoFigure) {
  for (const FigureKind& kind : kFigureKinds) EXPECT_TRUE(kind.make(Material()).empty()) << kind.name;
}

// Series beyond the colours differ by shape: no two of the first colours x shapes are alike.
TEST(FiguresTest, ColoursAndShapesDoNotRepeatTogether) {
  const Json range = Json::parse(GetFile(TARE_SOURCE_DIR "/experiments/report/figures/style.json")).at("range");
  EXPECT_EQ(std::gcd(range.at("category").size(), range.at("symbol").size()), 1u);
}

TEST(FiguresTest, RowsBecomeTheDataInTheirOrder) {
  FigureData figure{.name = "largest:x", .table = {.columns = {{"site"}, {"model"}, {"figure"}, {"value"}}}};
  figure.table.Add({"p", "z", "s", 1.5});
  figure.table.Add({"p", "a", "s", nullptr});
  figure.table.Add({"o", "z", "s", 2});
  const Json specification = SpecificationOf(figure);
  EXPECT_EQ(specification["data"]["values"].dump(),
            R"([{"site":"p","model":"z","figure":"s","value":1.5},{"site":"p","model":"a","figure":"s","value":null},)"
            R"({"site":"o","model":"z","figure":"s","value":2}])");
  EXPECT_EQ(specification["facet"]["sort"], Json({"p", "o"}));
  EXPECT_EQ(specification["spec"]["encoding"]["color"]["scale"]["domain"], Json({"z", "a"}));
}

TEST(FiguresTest, PanelsRepeatPerValueWithTheirRow) {
  FigureData figure{.name = "bits", .table = {.columns = {{"panel"}, {"unit"}, {"model"}, {"scale"}, {"floor"}}}};
  figure.table.Add({"p", "nats", "m", "s", nullptr});
  figure.table.Add({"p", "nats", "n", "s", nullptr});
  figure.table.Add({"q", "share", "m", "s", 0.25});
  const Json specification = SpecificationOf(figure);
  EXPECT_FALSE(specification.contains("spec"));
  ASSERT_EQ(specification["concat"].size(), 2u);
  const Json& second = specification["concat"][1];
  EXPECT_EQ(second["title"], "q");
  EXPECT_EQ(second["transform"][0]["filter"]["equal"], "q");
  EXPECT_EQ(second["layer"][0]["encoding"]["y"]["title"], "share");
  // What is null is left out.
  EXPECT_EQ(second["layer"][0]["encoding"]["y"]["scale"]["domainMin"], 0.25);
  EXPECT_FALSE(specification["concat"][0]["layer"][0]["encoding"]["y"]["scale"].contains("domainMin"));
}

TEST(FiguresTest, ANameLikeAPlaceholderIsAName) {
  FigureData figure{.name = "bits", .table = {.columns = {{"panel"}, {"unit"}, {"model"}, {"scale"}, {"floor"}}}};
  for (const char* model : {"$unit", "$(id)", "$"}) figure.table.Add({"p", "nats", model, "$x", nullptr});
  EXPECT_TRUE(SpecificationOf(figure).dump().contains(R"x(["$unit","$(id)","$"])x"));
}

TEST(FiguresTest, UndrawnRowsAreNamed) {
  FigureData figure{.name = "x",
                    .table = {.columns = {{"model", "model"}, {"layer", "layer"}, {"low", "from"}, {"value", "|x|"}}},
                    .drawn = {"value"},
                    .missing = {"more"}};
  figure.table.Add({"m", 3, nullptr, nullptr});
  figure.table.Add({"m", 4, nullptr, 1.0});
  EXPECT_EQ(MissingOf(figure), (std::vector<std::string>{"more", "model m, layer 3: |x| is not a number"}));
  figure.table.rows.assign(20, figure.table.rows[0]);
  EXPECT_EQ(MissingOf(figure).size(), 1u + 12 + 1);
  EXPECT_EQ(MissingOf(figure).back(), "and 8 more, empty in the table");
}

TEST(SentencesTest, FiguresAreNamedInWords) {
  EXPECT_EQ(FigureOnText("perplexity:heldout", "perplexity"), "perplexity on heldout");
  EXPECT_EQ(FigureOnText("choice:needles-4", "acc"), "accuracy on needles-4");
  EXPECT_EQ(FigureOnText("divergence:t", "perplexity_ratio"), "ratio of perplexities on t");
  EXPECT_EQ(FigureOnText("zero_shot:cats", "text_r1"), "text_r1 on cats");
}

// A row that a plan changed.
struct Moved {
  SweepCell cell;
  Figure figure;
  Comparison change;

  Moved(const char* task, const char* name, double value, double by, std::optional<Interval> interval) {
    cell.task = task;
    figure.keys.name = name;
    figure.value = value;
    change.value = by;
    change.interval = interval;
  }
  std::string Text() const { return MoveText({&cell, &figure, &change}); }
};

TEST(SentencesTest, MovesHaveTheDigitsOfTheirInterval) {
  const auto text = [](double change, std::optional<Interval> interval) {
    return Moved("perplexity:t", "perplexity", 31.0203, change, interval).Text();
  };
  EXPECT_EQ(text(1.688, {{1.49, 1.90}}), "rises by 1.69 [1.49, 1.90], from 29.33 to 31.02");
  EXPECT_EQ(text(-1.688, {{-1.90, -1.49}}), "falls by 1.69 [1.49, 1.90], from 32.71 to 31.02");
  EXPECT_EQ(text(-1.688, {}), "falls by 1.688, from 32.708 to 31.020");
  EXPECT_EQ(text(0, {}), "stays at 31.020");
}

TEST(SentencesTest, DivergencesRiseFromZeroInNats) {
  EXPECT_EQ(Moved("divergence:t", "kld", 2.5e-3, 2.5e-3, {}).Text(),
            "rises by 2.50e-03 nats per token, from 0 to 2.50e-03");
}

TEST(SentencesTest, ChangesKeepTheirSign) {
  const Json change{{"value", 2.5}, {"low", -1.5}, {"high", 6.5}};
  EXPECT_EQ(SignedText("perplexity:t", "perplexity", change), "+2.5 [-1.5, +6.5]");
  EXPECT_EQ(SignedText("perplexity:t", "perplexity", {{"value", 2.5}, {"low", nullptr}, {"high", nullptr}}), "+2.500");
}

TEST(SentencesTest, EstimatesHaveTheirError) {
  EXPECT_EQ(EstimateText(6.0, 0.5), "6.00 +/- 0.50");
  EXPECT_EQ(EstimateText(6.0, NAN), "6");
}

TEST(SentencesTest, RangesAreSingularOrPlural) {
  EXPECT_EQ(RangeText(2, 2, "token"), "token 2");
  EXPECT_EQ(RangeText(2, 3, "token"), "tokens 2 to 3");
  EXPECT_EQ(ContextText({{"first", 1}, {"last", 1}}), "1 token");
  EXPECT_EQ(ContextText({{"first", 4}, {"last", 7}}), "4 to 7 tokens");
}

TEST(SentencesTest, EvaluationsNameModelPlanAndCache) {
  EXPECT_EQ(EvaluatedText({{"model", "m"}, {"plan", "f32"}}), "m");
  EXPECT_EQ(EvaluatedText({{"model", "m"}, {"plan", "q=int4/token"}, {"cache", "first=4"}, {"executed", true}}),
            "m under q=int4/token with cache first=4 (executed)");
}

}  // namespace
}  // namespace tare::figures_test
