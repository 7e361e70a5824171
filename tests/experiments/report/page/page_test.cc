// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/report_material.h"

namespace tare::page_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string PageOf(const Material& material, const std::string& title = "Title") {
  std::vector<FigureData> figures;
  for (const FigureKind& kind : kFigureKinds) {
    for (FigureData& figure : kind.make(material)) figures.push_back(std::move(figure));
  }
  Drawing drawing;
  return ReportPage({title, "1.2.3", "tare report x"}, material, figures, drawing);
}

TEST(PageTest, HoldsFindingsFiguresTablesAndRuns) {
  const std::string page =
      PageOf(MaterialOf({OutliersOf("one", 20, 60), SweepOf({CellsOf("one", {{16, 20}, {4, 30}})})}));
  for (const char* part :
       {"<title>Title</title>", "The largest magnitude of an attention logit of one is 20", "href=\"#figure-bits\"",
        "<figure id=\"figure-bits\">", "class=\"marks\"", "<dt>one</dt><dd>weights 77aa</dd>", "tare report x",
        "<td class=\"number\" data-number=\"30\">30</td>", "@media print"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("{{")), Not(HasSubstr("http-equiv=\"refresh")), Not(HasSubstr("src=\"http"))));
}

TEST(PageTest, NamesMissingRowsAndRuns) {
  nlohmann::ordered_json json = OutliersOf("one", 20, 60);
  json["command"] = "tare stats 'a b'";
  json["layers"][0]["layer_out"]["absmax"] = nullptr;
  const std::string page = PageOf(MaterialOf({json}));
  EXPECT_THAT(page,
              AllOf(HasSubstr("What could not be drawn"), HasSubstr("layer 0, figure largest: |x| is not a number"),
                    HasSubstr("<dt>command</dt><dd>tare stats &#39;a b&#39;</dd>")));
  EXPECT_THAT(PageOf(MaterialOf({OutliersOf("one", 20, 60)})), Not(HasSubstr("could not be drawn")));
}

TEST(PageTest, SaysWhatIsShownOfEquivalence) {
  nlohmann::ordered_json sweep = SweepOf({CellsOf("one", {{16, 20}, {4, 30}})});
  EXPECT_THAT(PageOf(MaterialOf({sweep})), Not(HasSubstr("equivalence")));
  sweep["margin"] = 0.005;
  EXPECT_THAT(PageOf(MaterialOf({sweep})),
              HasSubstr("perplexity on text: a difference is shown, equivalence within 0.5 % is not ("));
  sweep["margin"] = "0.005";
  EXPECT_THROW(MaterialOf({sweep}), Error);
}

TEST(PageTest, SaysNoSentenceTwice) {
  FigureData figure = LargestMagnitudes(MaterialOf({OutliersOf("one", 20, 60)})).at(0), again = figure;
  figure.findings = {"One.", "Two."}, again.findings = {"Two.", "Three."};
  Drawing drawing;
  const std::string page = ReportPage({"t", "1", ""}, {}, {figure, again}, drawing);
  for (const char* said : {"<li>One. ", "<li>Two. ", "<li>Three. "}) {
    const size_t at = page.find(said);
    ASSERT_NE(at, page.npos) << said;
    EXPECT_EQ(page.find(said, at + 1), page.npos) << said;
  }
}

// Names of models, tasks and files may hold anything.
TEST(PageTest, ContentsOfFilesAreEscaped) {
  const std::string hostile = "</script><script>alert(1)</script><img src=x onerror='a\"b'>{{script}}\xff";
  const std::string page = PageOf(
      MaterialOf({SweepOf({CellsOf("m", {{16, 20}, {4, 30}})}), OutliersOf("</script><script>alert(1)</script>"
                                                                           "<img src=x onerror='a\"b'>{{script}}",
                                                                           3, 4)}),
      hostile);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("alert(1)</script>")), Not(HasSubstr("<img")),
                          HasSubstr("&lt;img src=x onerror="), HasSubstr("{{script}}")));
  size_t scripts = 0;
  for (size_t at = page.find("<script"); at != page.npos; at = page.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 1u);
}

// A file may have markup where a number belongs: it is text on the page, or the drawing refuses it by its figure.
TEST(PageTest, OtherValuesThanNumbersAreText) {
  const auto figure = [] { return LargestMagnitudes(MaterialOf({OutliersOf("one", 20, 60)})).at(0); };
  Drawing drawing;
  size_t shown = 0;
  for (const auto& column : figure().table.columns) {
    FigureData marked = figure();
    marked.table.rows.front()[column.name] = Json::array({"<img src=x>"});
    try {
      const std::string page = ReportPage({"t", "1", ""}, MaterialOf({}), {marked}, drawing);
      EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), HasSubstr("[&quot;&lt;img src=x&gt;&quot;]"))) << column.name;
      ++shown;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("figure figure-largest")) << column.name;
    }
  }
  EXPECT_GT(shown, 0u);
}

}  // namespace
}  // namespace tare::page_test
