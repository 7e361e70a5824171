// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/file/atomic_file.h"
#include "tests/support/arrays.h"
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

// Layers that were captured, by their numbers, each sequence a window.
TEST(MapsCommandTest, OfAnotherProgramsTensors) {
  const TemporaryFolder folder;
  const std::string file = folder / "c.safetensors", axes = folder / "axes.json";
  PutArrays(
      file,
      {{"q.2", SomeArray({3, 4, 9, 8}, 0.3f)}, {"k.2", SomeArray({3, 4, 9, 8})}, {"v.2", SomeArray({3, 4, 9, 8})}});
  PutFile(axes, R"({"attention": {"heads": "diffllama", "lambda": 0.5}})");
  const auto maps = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"maps", "--tensors", file});
    return CallTare(options);
  };
  const Outcome outcome = maps({"--axes", axes, "--plan", "k=int4/token", "--json", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("schema"), "tare.maps/1");
  EXPECT_EQ(json.at("model"), "c");
  EXPECT_EQ(json.at("windows"), 3);
  EXPECT_EQ(json.at("positions"), 27);
  ASSERT_EQ(json.at("plans").at(0).at("layers").size(), 1u);
  EXPECT_EQ(json["plans"][0]["layers"][0].at("layer"), 2);
  EXPECT_GT(json["plans"][0]["layers"][0].at("difference").at("error"), 0);
  EXPECT_THAT(maps({"--plan", "k=int4/token"}).out,
              testing::AllOf(HasSubstr("c: 27 positions in 3 windows"), Not(HasSubstr("difference, in"))));
  EXPECT_THAT(maps({"--plan", "weights=int8/channel"}).err, HasSubstr("got no rule for attention, expected q, k, v"));
  EXPECT_THAT(maps({"--plan", "k=int4/token", "--window", "5"}).err, HasSubstr("--tensors: got --window too"));
  EXPECT_THAT(CallTare({"maps", GoldenFolder("llama-mha"), "--tensors", file, "--plan", "k=int4/token"}).err,
              HasSubstr(" too, expected one of the two"));
  EXPECT_THAT(CallTare({"maps", GoldenFolder("llama-mha"), "--plan", "k=int4/token"}).err,
              HasSubstr("--input: got none, expected FILE"));
  EXPECT_EQ(CallTare({"maps", "--plan", "k=int4/token"}).exit_code, 2);
}

TEST(MapsCommandTest, PicturesOfHeads) {
  const TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 2, 200);
  const std::string json = folder / "heads.json", svg = folder / "f.svg";
  const auto maps = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"maps", GoldenFolder("diffllama-mha"), "--input", folder / "ids.safetensors"});
    return CallTare(options);
  };
  const Outcome outcome = maps({"--heads", "2.1,0.0", "--plan", "k=int4/token", "--json", json});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json heads = Json::parse(GetFile(json)).at("plans").at(0).at("heads");
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0].at("layer"), 2);
  EXPECT_EQ(heads[0].at("tokens"), 200);
  EXPECT_EQ(heads[0].at("cell"), 2);
  const Outcome plot = CallTare({"plot", json, "--figure", "attention", "--out", svg});
  ASSERT_EQ(plot.exit_code, 0) << plot.err;
  EXPECT_THAT(plot.out, HasSubstr("of 2 tokens by as many"));
  EXPECT_THAT(GetFile(svg), HasSubstr("head 1 of layer 2 of diffllama-mha"));
  EXPECT_LT(GetFile(svg).size(), 200'000u);
  EXPECT_THAT(CallTare({"plot", json}).err, HasSubstr("attention attention:2"));
  EXPECT_THAT(CallTare({"report", json, "--out", folder / "r.html"}).out, HasSubstr("r.html: 3 figures"));
  const auto refused = [&](const char* head) {
    return maps({"--heads", head, "--plan", "k=int4/token", "--json", json}).err;
  };
  for (const char* head : {"2", "2.x", "2.-1", "2.1.0"})
    EXPECT_THAT(refused(head), HasSubstr(std::string("--heads: got '") + head + "', expected a layer and an output"));
  EXPECT_THAT(refused("2.9"), HasSubstr("got head 9 of layer 2, expected an output head"));
  EXPECT_THAT(maps({"--heads", "2.1", "--plan", "k=int4/token"}).err,
              HasSubstr("--heads: has no effect without --json"));
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
