// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/report_material.h"

namespace tare::report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportCommandTest, WritesAPage) {
  const TemporaryFolder folder;
  PutFile(folder / "o.json", OutliersOf("m", 20, 60).dump());
  const Outcome outcome = CallTare({"report", folder / "o.json", "--out", folder / "r.html", "--title", "A & B"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("r.html: 1 figure"));
  EXPECT_THAT(GetFile(folder / "r.html"), HasSubstr("<title>A &amp; B</title>"));
}

// A figure reads it long after the file was.
TEST(ReportCommandTest, AValueOfAnotherKindIsNoInternalError) {
  const TemporaryFolder folder;
  Json cell = DivergenceCell("m", "cache_k=int4/token", 5, 0.01);
  cell["key"]["cache"] = 3;
  PutFile(folder / "s.json", Json{{"schema", "tare.sweep/3"}, {"cells", {cell}}}.dump());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"report", folder / "s.json"}, {"plot", folder / "s.json", "--figure", "caches"}}) {
    std::vector<std::string> whole = command;
    whole.insert(whole.end(), {"--out", folder / "o.svg"});
    const Outcome outcome = CallTare(whole);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("s.json: "));
    EXPECT_THAT(outcome.err, HasSubstr("was it made by another version? Try making it again"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("json.exception")));
  }
}

// Values all over what commands wrote, one at a time, as another: it is drawn, or refused as Error or as Json's.
TEST(ReportCommandTest, OddValuesAreDrawnOrRefused) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("llama-mha"), ids = model + "/expected.safetensors", out = folder / "odd.json";
  const std::vector<std::vector<std::string>> commands{
      {"stats", model, "--input", ids, "--json", folder / "stats.json"},
      {"eval", model, "--plan", "int4", "--tasks", "divergence=" + ids, "--json", folder / "eval.json"},
      {"maps", model, "--plan", "k=int4/token", "--input", ids, "--json", folder / "maps.json"},
      {"sweep", model, "--bits", "16,4", "--tasks", "perplexity=" + ids, "--out", folder / "sweep"}};
  int drawn = 0, refused = 0;
  for (const std::vector<std::string>& command : commands) {
    ASSERT_EQ(CallTare(command).exit_code, 0) << command[0];
    const std::string file = command[0] == "sweep" ? (folder / "sweep/table.json").string() : command.back();
    const Json whole = Json::parse(GetFile(file));
    const Json fields = whole.flatten();
    const size_t step = fields.size() / 20 + 1;
    size_t at = 0;
    for (auto field = fields.begin(); field != fields.end(); ++field) {
      if (at++ % step != 0) continue;
      for (const Json& odd : std::vector<Json>{nullptr, -1, "x", Json::array(), Json::object(), 1e308}) {
        Json json = whole;
        json[Json::json_pointer(field.key())] = odd;
        PutFile(out, json.dump());
        try {
          const Material material = ReadMaterial({out});
          for (const FigureKind& kind : kFigureKinds) {
            for (const FigureData& figure : kind.make(material)) (void)SpecificationOf(figure);
          }
          ++drawn;
        } catch (const Error&) {
          ++refused;
        } catch (const Json::exception&) {
          ++refused;
        } catch (const std::exception& error) {
          ADD_FAILURE() << command[0] << " " << field.key() << " = " << odd.dump() << ": " << error.what();
        }
      }
    }
  }
  EXPECT_GT(drawn, 20);
  EXPECT_GT(refused, 20);
}

TEST(ReportCommandTest, FilesWithoutAFigureAreRefused) {
  const TemporaryFolder folder;
  PutFile(folder / "i.json", R"({"schema":"tare.inspect/1","model":"m"})");
  const Outcome outcome = CallTare({"report", folder / "i.json", "--out", folder / "r.html"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("got nothing to draw a figure from"));
  EXPECT_FALSE(std::filesystem::exists(folder / "r.html"));
}

}  // namespace
}  // namespace tare::report_test
