// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "tests/quant/file/temporary_folder.h"

namespace tare::figures_test {
namespace {

TEST(FiguresTest, EachKindHasItsSpecificationAndItsSource) {
  const std::set<std::string> shared{"figures", "sentences", "style"};
  std::set<std::string> kinds, files;
  for (const FigureKind& kind : kFigureKinds) kinds.emplace(kind.name);
  for (const auto& entry : std::filesystem::directory_iterator(TARE_SOURCE_DIR "/experiments/report/figures")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".h" && !shared.contains(name)) files.insert(name);
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
  EXPECT_EQ(specification["facet"]["column"]["sort"], Json({"p", "o"}));
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

}  // namespace
}  // namespace tare::figures_test
