// SPDX-License-Identifier: Apache-2.0
// Which group a module is in, and every key that is refused.
#include "quant/interchange/folders/compressed_tensors_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/support/call.h"

namespace tare::compressed_tensors_config_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Json Smallest() {
  return Json::parse(R"({"format": "pack-quantized", "quantization_status": "compressed", "version": "0.12.2",
      "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "channel"}}}})");
}

CompressedConfig Parse(const Json& json) {
  SchemeKeys keys(json, "c");
  return CompressedConfig(keys);
}

void Refused(const Json& json, const std::string& what, const std::string& why) {
  EXPECT_THAT(Call([&] { Parse(json); }), ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr(why)))) << json;
}

TEST(CompressedConfig, NamesComeBeforePatternsBeforeClasses) {
  Json json = Smallest();
  const Json group = json["config_groups"]["g"];
  for (const char* target : {"re:.*layers.1.*", "re:.*down_proj", "layers.1.down_proj", "Embedding"}) {
    json["config_groups"][target] = group;
    json["config_groups"][target]["targets"] = {target};
  }
  const CompressedConfig config = Parse(json);
  EXPECT_EQ(config.GroupOf("layers.0.up_proj")->name, "g");
  EXPECT_EQ(config.GroupOf("layers.0.down_proj")->name, "re:.*down_proj");
  EXPECT_EQ(config.GroupOf("layers.1.up_proj")->name, "re:.*layers.1.*");
  EXPECT_EQ(config.GroupOf("layers.1.down_proj")->name, "layers.1.down_proj");
  EXPECT_EQ(config.GroupOf("layers.12.down_proj")->name, "re:.*down_proj");  // before re:.*layers, by the alphabet
  EXPECT_EQ(config.GroupOf("model.embed_tokens")->name, "Embedding");
  EXPECT_EQ(config.dense(), false);
}

TEST(CompressedConfig, ModulesWithoutAGroup) {
  Json json = Smallest();
  json["config_groups"]["g"]["targets"] = {"re:^a", "b"};
  const CompressedConfig config = Parse(json);
  EXPECT_EQ(config.GroupOf("c"), nullptr);
  EXPECT_EQ(config.GroupOf("ba"), nullptr);
  EXPECT_NE(config.GroupOf("ab"), nullptr);
}

TEST(CompressedConfig, CodesOfWhatIsIgnoredAreRefused) {
  for (const char* entry : {"lm_head", "re:lm.*", "Linear"}) {
    Json json = Smallest();
    json["ignore"] = {entry};
    EXPECT_THAT(Call([&] { Parse(json).GroupOf("lm_head"); }),
                ThrowsMessage<Error>(HasSubstr(std::string("ignore: got '") + entry + "', which leaves 'lm_head'")));
  }
}

TEST(CompressedConfig, FormatsOfGroups) {
  Json json = Smallest();
  json["config_groups"]["g"]["format"] = "int-quantized";
  Refused(json, "c: config_groups: g: format: got \"int-quantized\"", "pack-quantized, as the whole has it");
  json["format"] = "mixed-precision";
  EXPECT_EQ(Parse(json).GroupOf("a")->format, "int-quantized");
}

TEST(CompressedConfig, StrategiesFollowFromGroupsWhereTheyAreMissing) {
  const auto strategy = [](const Json& group) {
    Json json = Smallest();
    json["config_groups"]["g"]["weights"] = {{"group_size", group}};
    return StrategyText(Parse(json).GroupOf("a")->weights);
  };
  EXPECT_EQ(strategy(nullptr), "tensor");
  EXPECT_EQ(strategy(-1), "channel");
  EXPECT_EQ(strategy(64), "group64");
}

TEST(CompressedConfig, KeysAreHonouredOrRefused) {
  const auto whole = [](const char* key, const Json& value, const char* why) {
    Json json = Smallest();
    json[key] = value;
    Refused(json, std::string("c: ") + key, why);
  };
  whole("quantization_status", "frozen", "expected \"compressed\"");
  whole("kv_cache_scheme", {{"num_bits", 0}}, "num_bits: got 0");
  whole("sparsity_config", {{"format", "sparse-24-bitmask"}}, "others are not supported");
  whole("transform_config", {{"config_groups", 1}}, "others are not supported");
  whole("version", "new", "expected numbers with points between");
  whole("ignore", "lm_head", "expected a list of strings");
  whole("ignore", {"re:("}, "missing closing parenthesis");
  whole("config_groups", Json::object(), "expected an object of groups");
  whole("config_groups", {{"W4A16", {"Linear"}}}, "expected an object");
  whole("surprise", 1, "expected no such key");
  const auto weights = [](const char* key, const Json& value, const char* why) {
    Json json = Smallest();
    json["config_groups"]["g"]["weights"][key] = value;
    Refused(json, std::string("c: config_groups: g: weights: ") + key, why);
  };
  weights("num_bits", 0, "expected an integer from 1 to 16");
  weights("type", "posit", "expected \"int\" or \"float\"");
  weights("strategy", "attn_head", "expected tensor, channel");
  weights("actorder", "random", "expected group or weight");
  weights("surprise", 1, "expected no such key");
  Json json = Smallest();
  json["config_groups"]["g"]["weights"]["strategy"] = "group";
  Refused(json, "weights: group_size: missing", "");
  json["config_groups"]["g"]["weights"] = {{"strategy", "block"}, {"block_structure", {128}}};
  Refused(json, "block_structure: got [128]", "two positive integers");
  json["config_groups"]["g"]["weights"] = {{"strategy", "block"}, {"block_structure", {128, 0}}};
  Refused(json, "block_structure: got [128,0]", "two positive integers");
  json["config_groups"]["g"].erase("weights");
  Refused(json, "g: weights: missing", "");
  json = Smallest();
  json["config_groups"]["g"]["output_activations"] = {{"num_bits", 8}};
  Refused(json, "g: output_activations", "it is not supported");
}

}  // namespace
}  // namespace tare::compressed_tensors_config_test
