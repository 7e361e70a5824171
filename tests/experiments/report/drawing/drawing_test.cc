// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::drawing_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Json Bars(const std::string& name) {
  return {{"mark", "bar"},
          {"data", {{"values", {{{"what", name}, {"n", 3}}}}}},
          {"encoding",
           {{"x", {{"field", "what"}, {"type", "nominal"}}}, {"y", {{"field", "n"}, {"type", "quantitative"}}}}}};
}

TEST(DrawingTest, DrawsTheSameBytesEachTime) {
  Drawing drawing;
  const std::string svg = drawing.Svg("a", Bars("one"));
  EXPECT_THAT(svg, AllOf(StartsWith("<svg "), HasSubstr(">one</text>"), HasSubstr("currentColor")));
  EXPECT_EQ(drawing.Svg("a", Bars("one")), svg);
  EXPECT_EQ(Drawing().Svg("a", Bars("one")), svg);
}

// A figure for a paper looks the same for every reader.
TEST(DrawingTest, ByItselfItIsAlwaysLight) {
  const std::string svg = Drawing().Svg("a", Bars("one"));
  EXPECT_THAT(svg, AllOf(HasSubstr("svg.marks:root{color:#1f2328;background:#fff}"), Not(HasSubstr("prefers-color"))));
}

// A title wider than its panel is cut at the edge of the drawing; rules of a plan have no blank after their comma.
TEST(DrawingTest, TitlesOfPanelsHaveLines) {
  Json bars = Bars("nowhere, q=int4/row,k=int4/row,v=int4/row, perplexity");
  Json drawn{{"data", bars["data"]}, {"facet", {{"field", "what"}, {"title", nullptr}}}};
  bars.erase("data");
  drawn["spec"] = bars;
  const std::string svg = Drawing().Svg("a", drawn);
  for (const char* line :
       {">nowhere</tspan>", ">q=int4/row,k=int4/row,</tspan>", ">v=int4/row</tspan>", ">perplexity</tspan>"})
    EXPECT_THAT(svg, HasSubstr(line));
}

std::string Decoded(std::string_view base64) {
  std::string bytes;
  int bits = 0, held = 0;
  for (const char c : base64) {
    const auto digits = std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    if (c == '=') break;
    bits = (bits << 6 | static_cast<int>(digits.find(c))) & 0xffffff;
    if ((held += 6) >= 8) bytes += static_cast<char>(bits >> (held -= 8));
  }
  return bytes;
}

// Cells become a PNG of a palette: 0 is transparent, 1 to 255 the scheme's colours over the square root's range.
TEST(DrawingTest, CellsBecomeAnImage) {
  Json drawn{{"mark", {{"type", "image"}, {"width", 20}, {"height", 20}}},
             {"encoding", {{"x", {{"value", 0}}}, {"y", {{"value", 0}}}, {"url", {{"field", "url"}}}}}};
  drawn["data"]["values"] = {
      {{"cells", {{0.0}, {nullptr, 1.0}, {0.25, 4.0}}}, {"scheme", "viridis"}, {"domain", {0.0, 1.0}}}};
  const std::string svg = Drawing().Svg("a", drawn);
  const std::string_view mark = "href=\"data:image/png;base64,";
  const size_t at = svg.find(mark);
  ASSERT_NE(at, svg.npos) << svg;
  const size_t begin = at + mark.size();
  const std::string png = Decoded(std::string_view(svg).substr(begin, svg.find('"', begin) - begin));
  EXPECT_THAT(png, StartsWith(std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3\x8\3\0\0\0", 29)));
  const std::string_view palette = std::string_view(png).substr(png.find("PLTE") + 4, 768);
  EXPECT_EQ(palette.substr(3, 3), "\x44\x01\x54");  // the ends of viridis
  EXPECT_EQ(palette.substr(765, 3), "\xfd\xe7\x25");
  const std::string pixels({0, 1, 0, 0, 0, '\xff', 0, '\x80', '\xff'});
  EXPECT_EQ(png.substr(png.find("IDAT") + 4 + 7, 9), pixels);
  EXPECT_EQ(png.substr(png.find("IDAT") + 4, 7), std::string("\x78\1\1\x9\0\xf6\xff", 7));
}

TEST(DrawingTest, TextFromFilesIsEscaped) {
  const std::string svg = Drawing().Svg("a", Bars("</script><img src=x onerror=\"alert(1)\">"));
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("</script")), Not(HasSubstr("<img"))));
}

TEST(DrawingTest, FaultySpecificationsAreRefused) {
  Drawing drawing;
  const auto refusal = [&](const Json& specification) {
    try {
      drawing.Svg("odd", specification);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("drawn");
  };
  EXPECT_THAT(refusal({{"mark", "nothing"}, {"data", {{"values", Json::array()}}}}), HasSubstr("figure odd: "));
  Json bars = Bars("one");
  bars["encoding"]["x"]["type"] = "unheard";
  EXPECT_THAT(refusal(bars), HasSubstr("figure odd: "));  // Vega-Lite only warns
  EXPECT_THAT(refusal(Bars("one")), "drawn");             // and the next is none the worse
}

TEST(EmbeddedTest, IsTheFileAndANul) {
  const std::string_view css = Embedded("report.css");
  EXPECT_EQ(css, GetFile(TARE_SOURCE_DIR "/experiments/report/page/report.css"));
  EXPECT_EQ(css.data()[css.size()], '\0');
  EXPECT_GT(Embedded("vega.js").size(), 100'000u);
  EXPECT_THROW(Embedded("gone.js"), Error);
}

}  // namespace
}  // namespace tare::drawing_test
