// SPDX-License-Identifier: Apache-2.0
// Markup in each field of each kind of result, where a number or a name belongs: the page, read back as a browser reads
// it, has no element that the program did not write, or the file is refused.
// In the released build alone: it makes hundreds of pages, ten times as long under sanitizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "experiments/report/page/page.h"
#include "quant/base/message.h"
#include "tests/support/html_elements.h"
#include "tests/support/report_material.h"

namespace tare::report_markup_test {
namespace {

TEST(ReportMarkup, ElementsAreReadAsABrowserReadsThem) {
  EXPECT_THAT(ElementsOf("<p>a < b<br/><A HREF='x>y' class=\"c<d>\">&lt;i></a><!-- <u> --><script>'<v>'</script><s>"),
              testing::ElementsAre("a href=x>y class", "br", "p", "s", "script"));
}

// A result of every kind that pages draw; small, and with every field that figures look at.
std::vector<Json> Results() {
  std::vector<Json> results{OutliersOf("m", 20, 60), SweepOf({CellsOf("m", {{16, 20}, {4, 30}})}), SearchOf("m"),
                            HeadsOf("m", 0.25)};
  for (const char* text : {
           R"({"schema":"tare.attribution/1","model":"m","plan":"k=int4/token","by":"site","figures":[{"task":
               "perplexity:t","figure":"perplexity","n":40,"parts":[{"part":"k","alone_plan":"k=int4/token",
               "without_plan":"q=int4/token","alone":{"value":5,"low":4,"high":6},"taken_out":{"value":6,"low":5,
               "high":7}}],"change":{"value":9,"low":8,"high":10},"sum":{"value":5,"low":4,"high":6},"left_over":
               {"value":4,"low":3,"high":5}}]})",
           R"({"schema":"tare.eval/1","command":"tare eval","model":"m","plan":"f32","weights_sha256":"77aa","limit":3,
               "tasks":{"choice:needles":{"by":[{"depth":0,"length":512,"n":10,"acc":1,"acc_low":0,"acc_high":1}]}}})",
           R"({"schema":"tare.eval/1","model":"m","plan":"f32","tasks":{"perplexity:t":{"by_position":[{"first":1,
               "last":1,"tokens":4,"nll":6,"nll_stderr":0.5},{"first":2,"last":3,"tokens":8,"nll":4.5,"nll_stderr":0.5}
               ]}}})",
           R"({"schema":"tare.eval/1","model":"m","plan":"f32","tasks":{"divergence:t":{"kld":0.4,"by_context":[{
               "first":1,"last":1,"tokens":4,"kld":0.5,"perplexity_ratio":1.5}]}}})",
           R"({"schema":"tare.bench/1","bench":"linear","machine":{"cpu":"c","threads":2},"roofline":{"u8s8_gops":100,
               "f32_gflops":50,"bf16_gflops":0,"read_gbps":10},"cases":[{"plan":"weights=int8/channel","rows":1,"out":
               1000,"in":1000,"threads":1,"seconds":0.002,"bits_per_weight":8,"rel_l2":0.01}]})",
           R"({"schema":"tare.bench/1","roofline":{"read_gbps":10},"cases":[{"kernel":"tare","family":"v1","plan":"p",
               "n":100,"keys":100,"d":64,"heads":2,"kv_heads":2,"threads":1,"seconds":1,"executed_gops":40,"rel_l2":1,
               "u8s8_gops":80,"f32_gflops":20,"bf16_gflops":0}]})"})
    results.push_back(Json::parse(text));
  return results;
}

std::string PageOf(const Json& result, Drawing& drawing) {
  const Material material = MaterialOf({result});
  std::vector<FigureData> figures;
  for (const FigureKind& kind : kFigureKinds) {
    for (FigureData& figure : kind.make(material)) figures.push_back(std::move(figure));
  }
  return ReportPage({"t", "1", ""}, material, figures, drawing);
}

// Each field once, whatever the place in a list.
std::vector<std::string> FieldsOf(const Json& result) {
  std::set<std::string> seen;
  std::vector<std::string> fields;
  const Json flat = result.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    std::string kind = pointer;
    std::erase_if(kind, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (pointer != "/schema" && seen.insert(kind).second) fields.push_back(pointer);
  }
  return fields;
}

TEST(ReportMarkup, NoFieldMakesAnElement) {
  const std::string markup = "\"'></title></style></script></text></svg></td><mark onmark=\"1\">&lt;mark>";
  const std::string plain(markup.size(), 'x');
  Drawing drawing;
  size_t drawn = 0, refused = 0;
  for (const Json& result : Results()) {
    const std::set<std::string> usual = ElementsOf(PageOf(result, drawing));
    for (const std::string& field : FieldsOf(result)) {
      for (const auto& of : {+[](const std::string& text) { return Json(text); },
                             +[](const std::string& text) { return Json::array({text}); },
                             +[](const std::string& text) { return Json{{text, text}}; }}) {
        SCOPED_TRACE(result["schema"].get<std::string>() + field + " = " + of(markup).dump());
        Json marked = result, harmless = result;
        marked[Json::json_pointer(field)] = of(markup);
        harmless[Json::json_pointer(field)] = of(plain);
        try {
          const std::set<std::string> elements = ElementsOf(PageOf(marked, drawing));
          ++drawn;
          if (!std::ranges::includes(usual, elements)) {
            EXPECT_EQ(elements, ElementsOf(PageOf(harmless, drawing)));
          }
        } catch (const Error&) {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(drawn, 50u);
  EXPECT_GT(refused, 50u);
}

}  // namespace
}  // namespace tare::report_markup_test
