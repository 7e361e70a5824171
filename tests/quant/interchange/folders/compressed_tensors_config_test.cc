// SPDX-License-Identifier: Apache-2.0
// Which group a module is in, and every key that is refused.
#include "quant/interchange/folders/compressed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/plan/plan.h"
#include "tests/support/call.h"

namespace tare::compressed_tensors_config_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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
  EXPECT_EQ(config.layout().dense, false);
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
  whole("quantization_status", "calibration", "expected \"compressed\" or \"frozen\"");
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

using Strategy = CompressedArguments::Strategy;

constexpr const char* kLinear[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

std::vector<std::string> NotesOf(const CompressedArguments& inputs, std::vector<std::string> also = {},
                                 bool has_scales = false) {
  InputPlan plan;
  for (const char* part : kLinear) plan.Add(std::string("model.layers.0.x.") + part, inputs, has_scales);
  for (const std::string& part : also) plan.Add(part, inputs, has_scales);
  std::vector<std::string> notes;
  plan.Describe(notes);
  return notes;
}

std::string PlanOf(const CompressedArguments& inputs, std::vector<std::string> also = {}) {
  const std::vector<std::string> notes = NotesOf(inputs, std::move(also));
  if (notes.empty() || !notes[0].contains("--plan ")) return "";
  const std::string plan = notes[0].substr(notes[0].find("--plan ") + 7);
  EXPECT_NO_THROW(Plan::Parse(plan)) << plan;
  return plan;
}

// Every plan that is offered is one.
TEST(InputPlan, TheNearestPlan) {
  EXPECT_EQ(PlanOf({.bits = 8, .dynamic = true, .strategy = Strategy::kToken}), "linear_in=int8/token");
  EXPECT_EQ(PlanOf({.bits = 4, .dynamic = true, .strategy = Strategy::kToken}), "linear_in=int4/token");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kToken}),
            "linear_in=fp8e4m3/token");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 128}),
            "linear_in=fp8e4m3/group128");
  EXPECT_EQ(PlanOf({.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 32}),
            "linear_in=mxfp8e4m3");
  EXPECT_EQ(PlanOf({.bits = 4, .is_float = true, .dynamic = true, .strategy = Strategy::kTensorGroup, .group = 16}),
            "linear_in=nvfp4");
  EXPECT_EQ(PlanOf({.bits = 4, .is_float = true, .dynamic = true, .strategy = Strategy::kGroup, .group = 32}),
            "linear_in=mxfp4:even");
  EXPECT_EQ(PlanOf({.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, {"lm_head"}),
            "linear_in=int8/token,lm_head.in=int8/token");
}

TEST(InputPlan, StaticScalesAreTheFilesOrTares) {
  const CompressedArguments inputs{.bits = 8, .strategy = Strategy::kTensor};
  EXPECT_EQ(PlanOf(inputs), "linear_in=int8/tensor+static");
  EXPECT_THAT(NotesOf(inputs)[1], HasSubstr("Tare's own come from --stats"));
  EXPECT_THAT(NotesOf(inputs, {}, true)[1], HasSubstr("are the file's"));
}

TEST(InputPlan, WhatNoPlanSays) {
  EXPECT_THAT(NotesOf({.bits = 16}), IsEmpty());
  EXPECT_THAT(NotesOf({.bits = 8, .symmetric = false, .dynamic = true, .strategy = Strategy::kToken}),
              ElementsAre(HasSubstr("in a way that no plan says")));
  InputPlan plan;
  plan.Add("layers.0.up_proj", {.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, false);
  plan.Add("layers.1.up_proj", {.bits = 4, .dynamic = true, .strategy = Strategy::kToken}, false);
  std::vector<std::string> notes;
  plan.Describe(notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("in a way that no plan says")));
}

TEST(InputPlan, SomeModulesOnly) {
  InputPlan plan;
  plan.Add("layers.0.up_proj", {.bits = 8, .dynamic = true, .strategy = Strategy::kToken}, false);
  plan.Add("layers.0.down_proj", {.bits = 8, .is_float = true, .dynamic = true, .strategy = Strategy::kToken}, false);
  std::vector<std::string> notes;
  plan.Describe(notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("--plan down_proj.in=fp8e4m3/token,up_proj.in=int8/token")));
}

}  // namespace
}  // namespace tare::compressed_tensors_config_test
