// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/drawing/drawing.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/report_material.h"

namespace tare::attention_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(AttentionOfHeads, APanelForEachPicture) {
  const std::vector<FigureData> figures = AttentionOfHeads(MaterialOf({HeadsOf("m", 0.25), HeadsOf("n", 0.25)}));
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[1].name, "attention:2");
  const FigureData& figure = figures[0];
  EXPECT_EQ(figure.name, "attention");
  EXPECT_EQ(figure.title, "Attention of head 1 of layer 2 of m");
  EXPECT_THAT(figure.caption, AllOf(HasSubstr("the 4 tokens of the first window."), HasSubstr("of 2 tokens by as many"),
                                    HasSubstr("what k=int4/token adds"), HasSubstr("lambda is the mean")));
  ASSERT_EQ(figure.table.rows.size(), 4u);
  std::vector<std::string> panels;
  for (const Json& row : figure.table.rows) panels.push_back(row["panel"]);
  EXPECT_THAT(panels, ElementsAre("map 1", "map 2", "difference, lambda = 0.5", "error, k=int4/token"));
  EXPECT_EQ(figure.table.rows[1]["domain"], Json({0.0, 1.0}));
  EXPECT_EQ(figure.table.rows[2]["domain"], Json({-0.5, 0.5}));
  EXPECT_EQ(figure.table.rows[3]["domain"], Json({-0.25, 0.25}));
  EXPECT_EQ(figure.table.rows[3]["low"], -0.25);
  Json above = HeadsOf("m", 0.25);
  above["plans"][0]["heads"][0]["maps"][0] = {{0.5, nullptr}, {0.25, 0.75}};
  EXPECT_EQ(AttentionOfHeads(MaterialOf({above})).at(0).table.rows[0]["low"], 0.25);
  const std::string svg = Drawing().Svg("attention", SpecificationOf(figure));
  for (const char* part :
       {"lambda = 0.5", "head 1 of layer 2 of m", "query (token)", "data:image/png;base64,", "pixelated"})
    EXPECT_THAT(svg, HasSubstr(part));
}

TEST(AttentionOfHeads, OfOneMap) {
  Json of_one = HeadsOf("m", 0);
  Json& head = of_one["plans"][0]["heads"][0];
  head["lambda"] = head["difference"] = nullptr;
  head["maps"].erase(1);
  const FigureData figure = AttentionOfHeads(MaterialOf({of_one})).at(0);
  ASSERT_EQ(figure.table.rows.size(), 2u);
  EXPECT_THAT(figure.caption, testing::EndsWith("exact inputs to the layer."));
  EXPECT_THAT(
      figure.findings,
      ElementsAre("In head 1 of layer 2 of m, k=int4/token changes an entry of the map by at most 0.0625, where "
                  "the largest is 1."));
}

TEST(AttentionOfHeads, RefusesMoreCellsThanAPictureHas) {
  Json large = HeadsOf("m", 0.25);
  large["plans"][0]["heads"][0]["maps"][0] = std::vector(129, std::vector<double>{0.5});
  EXPECT_THAT(Call([&] { AttentionOfHeads(MaterialOf({large})); }),
              testing::ThrowsMessage<Error>(HasSubstr("got 129 cells a side, expected at most 128")));
}

}  // namespace
}  // namespace tare::attention_test
