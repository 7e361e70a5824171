// SPDX-License-Identifier: Apache-2.0
// tare levels, and the plan that it writes, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "quant/file/atomic_file.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"

namespace tare::levels_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(LevelsCommand, ThePlanCanBeEvaluated) {
  const TemporaryFolder folder;
  const std::string model = GoldenFolder("diffllama-mha"), ids = folder / "ids.safetensors";
  PutManyIds(ids, 6, 20);
  const auto levels = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"levels", model, "--calibrate", ids});
    return CallTare(options);
  };
  const std::string plan = "k=normal2/channel+mean+outliers1,v=normal2/token+mean";
  const Outcome outcome = levels({"--plan", plan, "--out", folder / "levels.txt"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("levels of " + plan));
  EXPECT_THAT(outcome.out, HasSubstr("site  layer  values    loss  learned\nk         0    7296  "));
  const std::string learned = ReadLines(folder / "levels.txt").at(0);
  EXPECT_THAT(learned, StartsWith("k[l0]=grid(-"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("grid(")));
  EXPECT_THAT(levels({"--plan", plan}).out, HasSubstr("\n" + learned + "\n"));  // to paste
  const Json json = Json::parse(levels({"--plan", plan, "--json", "-"}).out);
  EXPECT_EQ(json.at("schema"), "tare.levels/1");
  EXPECT_EQ(json.at("learned_plan"), learned);
  EXPECT_EQ(json.at("layers").size(), 6u);
  EXPECT_EQ(json["layers"][5].at("levels").size(), 4u);
  EXPECT_THAT(json.at("calibration").get<std::string>(), HasSubstr("ids.safetensors, sha256 "));
  const Outcome evaluated = CallTare({"eval", model, "--plan", learned, "--tasks", "divergence=" + ids, "--json", "-"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, testing::ContainsRegex("\"key_bits\": ?2.32"));  // two, and one value of 100 in 32 bits

  EXPECT_THAT(levels({"--plan", "k=int4/token"}).err, HasSubstr("got no rule with levels to learn"));
  EXPECT_EQ(levels({"--plan", "k=int4/token"}).exit_code, 2);
  EXPECT_EQ(levels({}).exit_code, 2);
  EXPECT_THAT(CallTare({"levels", model, "--plan", plan, "--calibrate", ""}).err,
              HasSubstr("--calibrate: got no text"));
  EXPECT_THAT(levels({"--plan", plan, "--out", ids}).err, HasSubstr("ids.safetensors: is both an input and an output"));
}

}  // namespace
}  // namespace tare::levels_test
