// SPDX-License-Identifier: Apache-2.0
// In the sanitized build: it reads files that others made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::inspect_test {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(InspectTest, DescribesAModelForPeople) {
  const Outcome outcome = CallTare({"inspect", GoldenFolder("diffllama-gqa")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"diffllama-gqa: diffllama", "BF16", "layers 3, hidden 64, FFN 96, vocabulary 131 (tied)",
                           "key/value heads 4", "4 differential heads", "lambda_init"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(InspectTest, TellsWhatRotates) {
  EXPECT_THAT(CallTare({"inspect", GoldenFolder("phi3")}).out,
              AllOf(HasSubstr("rotary positions scaled by longrope"), HasSubstr("of 6 of the 8 channels of a head")));
  EXPECT_THAT(CallTare({"inspect", GoldenFolder("smollm3")}).out,
              AllOf(HasSubstr("scaled by yarn"), HasSubstr("no rotary positions in layers 1\n")));
  const Json json = Json::parse(CallTare({"inspect", GoldenFolder("smollm3"), "--json", "-"}).out);
  EXPECT_EQ(json["rotary"]["type"], "yarn");
  EXPECT_EQ(json["unrotated"], Json::array({1}));
}

TEST(InspectTest, JsonOnStandardOutputStandsAlone) {
  const Outcome outcome = CallTare({"inspect", GoldenFolder("diffllama-gqa"), "--json", "-"});
  EXPECT_EQ(outcome.exit_code, 0);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "tare.inspect/1");
  EXPECT_EQ(json["model"], "diffllama-gqa");
  EXPECT_EQ(json["family"], "diffllama");
  EXPECT_EQ(json["stored"]["BF16"], json["parameters"]);
  EXPECT_EQ(json["bytes"].get<int64_t>(), 2 * json["parameters"].get<int64_t>());
  ASSERT_EQ(json["lambda"].size(), 3u);
  // 0.8 - 0.6 exp(-0.3 layer)
  EXPECT_NEAR(json["lambda"][0]["lambda_init"].get<double>(), 0.2, 1e-6);
  EXPECT_NEAR(json["lambda"][2]["lambda_init"].get<double>(), 0.8 - 0.6 * std::exp(-0.6), 1e-6);
}

TEST(InspectTest, JsonInAFileStandsBesideTheFigures) {
  const TemporaryFolder folder;
  const std::string file = folder / "x.json";
  const Outcome outcome = CallTare({"inspect", GoldenFolder("llama-mha") / "", "--json", file});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("llama-mha: llama, 96576 parameters, 386 KB"));
  EXPECT_EQ(Json::parse(GetFile(file))["parameters"], 96576);
  EXPECT_FALSE(Json::parse(GetFile(file)).contains("lambda"));
  EXPECT_EQ(folder.Names().size(), 1u);
}

// Weights are read by --check alone; what every command computes with is checked anyway.
TEST(InspectTest, ReadsWeightsToCheckThem) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diffllama-gqa"));
  checkpoint.tensors.at("model.layers.1.mlp.up_proj.weight").SetBits(7, 0x7fc0);  // NaN in BF16
  checkpoint.Write(folder / "m");
  const Outcome seen = CallTare({"inspect", folder / "m"});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, testing::Not(HasSubstr("finite")));
  const Outcome refused = CallTare({"inspect", folder / "m", "--check"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("tensor 'model.layers.1.mlp.up_proj.weight', index 7: NaN or infinity"));
  const Outcome whole = CallTare({"inspect", GoldenFolder("diffllama-gqa"), "--check"});
  EXPECT_THAT(whole.out, HasSubstr("every weight is finite"));
  const Json json = Json::parse(CallTare({"inspect", GoldenFolder("llama-mha"), "--check", "--json", "-"}).out);
  EXPECT_EQ(json["checked"], true);
}

// The models include one whose matrices have no data as they are stored, and one whose head is stored twice.
TEST(InspectTest, ShowsTheSameWithoutReading) {
  for (const char* golden : {"gpt-oss-mxfp4", "gemma3", "phi4flash", "phi3", "motif", "mixtral"}) {
    Json looked = Json::parse(CallTare({"inspect", GoldenFolder(golden), "--json", "-"}).out),
         read = Json::parse(CallTare({"inspect", GoldenFolder(golden), "--json", "-", "--check"}).out);
    EXPECT_EQ(looked["checked"], false);
    for (const char* key : {"checked", "command"}) looked.erase(key), read.erase(key);
    EXPECT_EQ(looked, read) << golden;
  }
}

}  // namespace
}  // namespace tare::inspect_test
