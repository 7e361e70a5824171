// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::compare_attribution_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// By default of the preset with the fewest bits, in folders that tare attribute can resume; or of the requested plan.
TEST(CompareAttribution, WhichSitesAreToBlame) {
  TemporaryFolder folder;
  PutManyIds(folder / "ids.safetensors", 6, 20);
  const auto compare = [&](std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"compare", GoldenFolder("llama-mha"), GoldenFolder("diffllama-mha"), "--bits", "4", "--tasks",
                    "perplexity=" + (folder / "ids.safetensors").string(), "--out", folder / "out"});
    return CallTare(options);
  };
  const auto get = [&](const char* name) { return GetFile(folder / "out" / name); };
  const Outcome outcome = compare({"--attribute", "q=int4/token,k=int4/token"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\ndivergence:ids, kld, of each part of q=int4/token,k=int4/token alone\n"
                                     "  A: llama-mha, B: diffllama-mha\n"));
  const Json json = Json::parse(get("compare.json")).at("attribution");
  ASSERT_EQ(json.at("models").size(), 2u);
  EXPECT_EQ(json["models"][1].at("model"), "diffllama-mha");
  ASSERT_EQ(json.at("differences").size(), 3u);
  for (const Json& part : json["differences"]) {
    if (part.at("part").is_null()) continue;
    EXPECT_NEAR(part.at("difference").at("value").get<double>(),
                part.at("second").get<double>() - part.at("first").get<double>(), 1e-12);
  }
  const std::string ids = "divergence=" + (folder / "ids.safetensors").string(),
                    cells = get("attribution-B/cells.jsonl");
  const Outcome again = CallTare({"attribute", GoldenFolder("diffllama-mha"), "--plan", "q=int4/token,k=int4/token",
                                  "--tasks", ids, "--tokens", "10220", "--out", folder / "out" / "attribution-B"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(get("attribution-B/cells.jsonl"), StartsWith(cells));  // none of them ran again
  const auto parts = [](const Json& attribution) { return attribution.at("figures").at(0).at("parts"); };
  const Json own = parts(json["models"][1]), added = parts(Json::parse(get("attribution-B/attribution.json")));
  ASSERT_EQ(added.size(), own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(added[i].at("alone"), own[i].at("alone"));
    EXPECT_TRUE(own[i].at("taken_out").is_null());
    EXPECT_TRUE(added[i].at("taken_out").is_object());
  }
  // The comparison leaves there what the command has added.
  ASSERT_EQ(compare({"--attribute", "q=int4/token,k=int4/token"}).exit_code, 0);
  EXPECT_EQ(parts(Json::parse(get("attribution-B/attribution.json"))), added);

  ASSERT_EQ(compare({"--attribute", "none"}).exit_code, 0);
  EXPECT_FALSE(Json::parse(get("compare.json")).contains("attribution"));
  EXPECT_THAT(compare({"--attribute", "q=int4/token"}).err, HasSubstr("q=int4/token has one part"));
}

}  // namespace
}  // namespace tare::compare_attribution_test
