// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::attribute_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class AttributeCommandTest : public testing::Test {
 protected:
  AttributeCommandTest() { PutManyIds(folder_ / "ids.safetensors", 6, 20); }

  Outcome Attribute(const std::string& plan, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"attribute", GoldenFolder("diffllama-mha"), "--plan", plan, "--tasks",
                                     "divergence=" + (folder_ / "ids.safetensors").string(), "--out", folder_ / "out"});
    return CallTare(options);
  }
  std::string Get(const char* name) { return GetFile(folder_ / "out" / name); }

  TemporaryFolder folder_;
};

TEST_F(AttributeCommandTest, EachPartAloneAndTakenOut) {
  const Outcome outcome = Attribute("q=int4/token,attn_logits=int4/row", {"--by", "site,map"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(Get("attribution.txt")));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.push_back(entry.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("cells.jsonl", "attribution.csv", "attribution.json", "attribution.txt"));
  const Json json = Json::parse(Get("attribution.json"));
  const Json& kld = json.at("figures").at(0);
  EXPECT_EQ(kld.at("figure"), "kld");
  ASSERT_EQ(kld.at("parts").size(), 4u);
  double sum = 0, before = 1e9;
  for (const Json& part : kld["parts"]) {
    const double alone = part.at("alone").at("value");
    EXPECT_LE(alone, before);  // f32 itself is at no distance
    sum += before = alone;
  }
  EXPECT_NEAR(kld["sum"]["value"], sum, 1e-12);
  EXPECT_NEAR(kld["left_over"]["value"].get<double>(), kld["change"]["value"].get<double>() - sum, 1e-12);
  // Each is what eval gives for its plan.
  const Json& part = kld["parts"][1];
  const Outcome alone = CallTare({"eval", GoldenFolder("diffllama-mha"), "--plan", part.at("alone_plan"), "--tasks",
                                  "divergence=" + (folder_ / "ids.safetensors").string(), "--json", "-"});
  EXPECT_EQ(Json::parse(alone.out).at("tasks").at("divergence:ids").at("kld"), part["alone"]["value"]);
}

// Over two key heads: what the two groups cost alone is what eval gives for plans that name their heads.
TEST_F(AttributeCommandTest, ByHeadsThatShareAKeyHead) {
  const std::string tasks = "divergence=" + (folder_ / "ids.safetensors").string();
  const Outcome outcome = CallTare({"attribute", GoldenFolder("llama-gqa"), "--plan", "q=int4/token,k=int4/token",
                                    "--by", "head-group", "--tasks", tasks, "--out", folder_ / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = Json::parse(Get("attribution.json"));
  EXPECT_EQ(json.at("by"), "head-group");
  const Json& parts = json.at("figures").at(0).at("parts");
  ASSERT_EQ(parts.size(), 2u);
  for (const Json& part : parts) {
    const bool first = part.at("part") == "[g0]";
    const char* plan = first ? "q[h0-2]=int4/token,k[h0]=int4/token" : "q[h3-5]=int4/token,k[h1]=int4/token";
    EXPECT_EQ(part.at("alone_plan"), plan);
    const Outcome alone =
        CallTare({"eval", GoldenFolder("llama-gqa"), "--plan", plan, "--tasks", tasks, "--json", "-"});
    EXPECT_EQ(Json::parse(alone.out).at("tasks").at("divergence:ids").at("kld"), part["alone"]["value"]);
    EXPECT_GT(part["alone"]["value"], 0.0);
  }
}

TEST_F(AttributeCommandTest, FinishedCellsAreNotRunAgain) {
  const char* plan = "q=int4/token,k=int4/token";
  ASSERT_EQ(Attribute(plan).exit_code, 0);
  const std::string cells = Get("cells.jsonl"), csv = Get("attribution.csv");
  ASSERT_EQ(Attribute(plan, {"--threads", "1"}).exit_code, 0);
  EXPECT_EQ(Get("cells.jsonl"), cells);
  EXPECT_EQ(Get("attribution.csv"), csv);
  // Another plan of the same folder runs what it lacks, and shows its own parts alone.
  ASSERT_EQ(Attribute("q=int4/token,v=int4/token").exit_code, 0);
  EXPECT_THAT(Get("cells.jsonl"), StartsWith(cells));
  EXPECT_FALSE(Get("attribution.txt").contains("\n  k "));
}

TEST_F(AttributeCommandTest, Refused) {
  EXPECT_THAT(Attribute("q=int4/token").err, HasSubstr("--plan: q=int4/token has one part, q to separate"));
  EXPECT_THAT(Attribute("f32").err, HasSubstr("--plan: f32 has nothing to separate"));
  EXPECT_THAT(Attribute("int4", {"--by", "sight"}).err,
              HasSubstr("--by: got 'sight', expected site, layer, head, head-group or map"));
  EXPECT_THAT(Attribute("q[l9]=int4/token,k=int4/token", {"--by", "site,layer"}).err,
              HasSubstr("got layer 9 of q, expected 0 to"));
  EXPECT_EQ(CallTare({"attribute", GoldenFolder("llama-mha"), "--plan", "int4"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace tare::attribute_test
