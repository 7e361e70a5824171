// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

TEST(FiguresTest, EachKindHasItsSpecificationAndItsSource) {
  std::set<std::string> kinds, files;
  for (const FigureKind& kind : kFigureKinds) kinds.emplace(kind.name);
  for (const auto& entry : std::filesystem::directory_iterator(TARE_SOURCE_DIR "/experiments/report/figures")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".h" && name != "figures" && name != "style") files.insert(name);
  }
  EXPECT_EQ(kinds, files);
}

TEST(FiguresTest, NothingMakesNoFigure) {
  for (const FigureKind& kind : kFigureKinds) EXPECT_TRUE(kind.make(Material()).empty()) << kind.name;
}

TEST(FiguresTest, RowsBecomeTheDataInTheirOrder) {
  const FigureData figure{.name = "bits:x",
                          .columns = {{"panel", ""}, {"model", ""}, {"scale", ""}, {"value", ""}},
                          .rows = {{"p", "z", "s", 1.5}, {"p", "a", "s", nullptr}, {"o", "z", "s", 2}}};
  const Json specification = SpecificationOf(figure);
  EXPECT_EQ(specification["data"]["values"].dump(),
            R"([{"panel":"p","model":"z","scale":"s","value":1.5},{"panel":"p","model":"a","scale":"s","value":null},)"
            R"({"panel":"o","model":"z","scale":"s","value":2}])");
  EXPECT_EQ(specification["facet"]["sort"], Json({"p", "o"}));
  EXPECT_EQ(specification["spec"]["encoding"]["color"]["scale"]["domain"], Json({"z", "a"}));
}

}  // namespace
}  // namespace tare
