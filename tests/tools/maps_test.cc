// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/file/atomic_file.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::maps_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(MapsCommandTest, EachMapAndTheDifference) {
  TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 6, 20);
  const auto maps = [&](const char* model, std::vector<std::string> options) {
    options.insert(options.begin(), {"maps", GoldenFolder(model), "--input", folder / "ids.safetensors"});
    return CallTare(options);
  };
  const Outcome outcome = maps("diffllama-mha", {"--plan", "k=int4/token", "--plan", "attn_logits=int8/row"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"120 positions in 6 windows", "\nk=int4/token\n", "\nattn_logits=int8/row\n", "difference"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(outcome.out, Not(HasSubstr("95 %")));
  EXPECT_THAT(outcome.out, HasSubstr("No intervals: 6 windows"));
  EXPECT_THAT(maps("llama-mha", {"--plan", "k=int4/token"}).out, Not(HasSubstr("difference, in common")));
  const Json json = Json::parse(maps("diffllama-mha", {"--plan", "k=int4/token", "--json", "-"}).out);
  EXPECT_EQ(json.at("schema"), "tare.maps/1");
  EXPECT_EQ(json.at("plans").at(0).at("layers").size(), 3u);
  EXPECT_GT(json["plans"][0]["layers"][1]["maps"][1].at("shiftless_rms"), 0);
  ASSERT_EQ(maps("diffllama-mha", {"--plan", "k=int4/token", "--csv", folder / "maps.csv"}).exit_code, 0);
  const std::vector<std::string> rows = ReadLines(folder / "maps.csv");
  ASSERT_EQ(rows.size(), 1 + 3 * 3u);
  const Json& second = json["plans"][0]["layers"][1]["maps"][1];
  EXPECT_THAT(rows[5], StartsWith("k=int4/token,1,2," + second.at("logit_rms").dump() + ","));
  EXPECT_THAT(rows[6], StartsWith("k=int4/token,1,difference,,,,," +
                                  json["plans"][0]["layers"][1]["difference"].at("error").dump() + ","));
  EXPECT_THAT(maps("llama-mha", {"--plan", "k=int4/token", "--csv", folder / "no/maps.csv"}).err,
              HasSubstr("no/maps.csv"));
  EXPECT_THAT(maps("llama-mha", {"--plan", "f32"}).err, HasSubstr("--plan: got f32, expected a plan that quantizes"));
  EXPECT_THAT(maps("llama-mha", {"--plan", "k[m2]=int4/token"}).err, HasSubstr("got map 2 of k, expected 1 to 1"));
  EXPECT_EQ(maps("llama-mha", {}).exit_code, 2);
}

TEST(MapsCommandTest, AReportTakesItsJson) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 6, 20);
  const Outcome maps = CallTare({"maps", GoldenFolder("diffllama-mha"), "--input", folder / "ids.safetensors", "--plan",
                                 "k=int4/token", "--json", folder / "m.json"});
  ASSERT_EQ(maps.exit_code, 0) << maps.err;
  const Outcome report = CallTare({"report", folder / "m.json", "--out", folder / "r.html"});
  EXPECT_THAT(report.out, HasSubstr("r.html: 1 figure")) << report.err;
  EXPECT_THAT(GetFile(folder / "r.html"), HasSubstr("the largest error of an attention map is"));
  const Outcome plot = CallTare({"plot", folder / "m.json", "--figure", "map_errors", "--out", folder / "f.svg"});
  EXPECT_EQ(plot.exit_code, 0) << plot.err;
}

}  // namespace
}  // namespace tare::maps_test
