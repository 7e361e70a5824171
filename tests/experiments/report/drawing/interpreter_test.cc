// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/report/drawing/interpreter.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/asked_to_stop.h"

namespace tare::interpreter_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

TEST(InterpreterTest, GivesTextsAndMessages) {
  Interpreter interpreter({"words.js", "values.js", "template.js"});
  (void)interpreter.Call("read", {"a{{ b }}"}, "here");
  EXPECT_EQ(interpreter.Call("write", {R"({"b": "c"})"}, "here"), "ac");
  EXPECT_THAT([&] { (void)interpreter.Call("write", {"{"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: SyntaxError: ")));
  EXPECT_EQ(interpreter.Call("write", {"{}"}, "here"), "a") << "an error ends a call and no more";
}

TEST(InterpreterTest, KeepsItsLimits) {
  Interpreter interpreter({"words.js", "values.js", "template.js"}, 10);
  (void)interpreter.Call("read", {"{% for i in range(n) %}{% endfor %}"}, "here");
  EXPECT_THAT([&] { (void)interpreter.Call("write", {R"({"n": 300000})"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: got no end after 10 steps")));
  EXPECT_THAT([&] { (void)interpreter.Call("write", {R"({"n": 99999999})"}, "here"); },
              ThrowsMessage<Error>(StartsWith("here: ")));
  EXPECT_EQ(interpreter.Call("write", {R"({"n": 1})"}, "here"), "") << "the steps are of one call";
  const AskedToStop asked;
  EXPECT_THROW((void)interpreter.Call("write", {R"({"n": 1})"}, "here"), Interrupted);
}

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

std::string Written(const std::string& source, const Json& names = Json::object()) {
  return ReadChatTemplate(source, "t")(names, "t");
}

std::string MessageOf(const std::string& source) {
  try {
    return "made " + Written(source);
  } catch (const Error& error) {
    return error.what();
  }
}

// tests/data/chat: what jinja2 makes of them in transformers' environment, or nothing where it refuses.
TEST(ReadTemplateTest, TemplatesOfFamiliesAreAsInTransformers) {
  const std::string path = std::string(TARE_SOURCE_DIR) + "/tests/data/chat/templates.json";
  size_t cases = 0;
  for (const Json& family : ParseOrderedJson(GetFile(path), path)) {
    for (const Json& one : family["cases"]) {
      const Json names{{"messages", one["messages"]}, {"tools", one["tools"]},
                       {"documents", nullptr},        {"add_generation_prompt", one["prompt"]},
                       {"bos_token", "<s>"},          {"eos_token", "</s>"}};
      ++cases;
      if (one["text"].is_null()) {
        EXPECT_THROW((void)Written(family["template"], names), Error) << family["family"];
      } else {
        EXPECT_EQ(Written(family["template"], names), one["text"].get<std::string>()) << family["family"];
      }
    }
  }
  EXPECT_EQ(cases, 78u);
}

TEST(ReadTemplateTest, WhatItDoesNotKnowIsNamedWithItsLine) {
  EXPECT_THAT(MessageOf("\n{% include 'x' %}"), StartsWith("t: line 2: got '{% include', expected if, for, set, "));
  EXPECT_THAT(MessageOf("\n\n{{ x | shuffle }}"), StartsWith("t: line 3: got the filter 'shuffle', expected one of "));
  EXPECT_THAT(MessageOf("{{ 'a'.zfill(3) }}"), StartsWith("t: line 1: got the method 'zfill', expected one of "));
  EXPECT_THAT(MessageOf("{{ 1 is prime }}"), StartsWith("t: line 1: got the test 'prime', expected one of "));
  EXPECT_THAT(MessageOf("{{ strftime_now('%Y') }}"), StartsWith("t: line 1: got the function 'strftime_now'"));
  EXPECT_EQ(Written("{% if false %}{{ x | shuffle }}{% endif %}a"), "a") << "what does not run may be unknown";
  EXPECT_EQ(Written("{{ 'a.b.a.b'.replace('a', 'c', 1) }} {{ 'aa' | replace('a', 'b') }}"), "c.b.a.b bb");
}

TEST(ReadTemplateTest, WrongTypesAreRefused) {
  EXPECT_EQ(MessageOf("{{ a.b }}"), "t: line 1: got b of what is undefined, expected a value");
  EXPECT_EQ(MessageOf("{{ 'a' + none }}"), "t: line 1: got a string, expected a whole number");
  EXPECT_EQ(MessageOf("{{ [1] }}"), "t: line 1: got a list, expected a text; try |tojson");
  EXPECT_EQ(MessageOf("{% set x.y = 1 %}"), "t: line 1: got undefined, expected a namespace for x.y");
  EXPECT_EQ(MessageOf("{{ raise_exception('no tools') }}"), "t: line 1: the template refuses: no tools");
  EXPECT_THAT(MessageOf("{% if a"), HasSubstr("expected a word or %}"));
  EXPECT_THAT(MessageOf("{% if a %}"), HasSubstr("expected {% endif %}"));
}

}  // namespace

}  // namespace tare::interpreter_test
