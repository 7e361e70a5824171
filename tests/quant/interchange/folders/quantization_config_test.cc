// SPDX-License-Identifier: Apache-2.0
// Which reader a folder gets.
#include "quant/interchange/folders/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/foreign_folder.h"

namespace tare::quantization_config_test {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

bool Starts(std::string_view pattern, std::string_view name) { return NamePattern(pattern, "p").MatchesStart(name); }
bool Somewhere(std::string_view pattern, std::string_view name) {
  return NamePattern(pattern, "p").MatchesSomewhere(name);
}

// Matches as Python's re module does; the cases below were run through it.
TEST(NamePattern, MatchesAsPythonDoes) {
  constexpr std::string_view kName = "model.layers.12.mlp.down_proj";
  for (const char* pattern :
       {"", "model", ".*down_proj", R"(model\.layers\.\d+\.mlp\..*)", R"(.*\.(up|down)_proj$)", "(?:model.)?layers|m",
        "[a-z]+", R"(.*\.1[0-5]\..*)", "^model.*", ".{6}layers", ".{2,}?\\.", "(?!lm_head).*proj", "(?=model)m",
        R"(\w+\.\w+\.\d{1,3}\.)", "[^.]+\\.[]l]", R"(.*[\d_]proj)", "m.*|x", "((a*)*)*model"})
    EXPECT_TRUE(Starts(pattern, kName)) << pattern;
  for (const char* pattern : {"layers", "down", "model$", R"(.*\.(up|gate)_proj$)", R"(.*\.2\..*)", "(?!model).*",
                              ".{30}", "[^m]", R"(\d)", "a{2}", "(?=layers)m"})
    EXPECT_FALSE(Starts(pattern, kName)) << pattern;
}

TEST(NamePattern, SearchesAnywhere) {
  EXPECT_TRUE(Somewhere("layers", "model.layers.0"));
  EXPECT_TRUE(Somewhere("0$", "model.layers.0"));
  EXPECT_FALSE(Somewhere("^layers", "model.layers.0"));
  EXPECT_FALSE(Somewhere("layers$", "model.layers.0"));
}

TEST(NamePattern, RefusesWhatIsNoPattern) {
  const auto refused = [](std::string_view pattern, const char* why) {
    EXPECT_THAT(Call([&] { NamePattern(pattern, "where"); }), ThrowsMessage<Error>(HasSubstr(why))) << pattern;
  };
  refused("(", "where: got the pattern '(', at 1: missing closing parenthesis; expected a regular expression");
  for (const char* pattern : {")", "[a", "*", "a**", "a{3,2}", "\\", "\\1", "[z-a]", "\\C"})
    refused(pattern, "expected a regular expression of Python's");
  refused(std::string(300, '(') + std::string(300, ')'), "parentheses are too deeply nested");
  refused("(((.?){900}){900}){900}b", "regular expression is too large");
  refused(std::string(1001, 'a'), "got a pattern of 1001 bytes");
}

// What takes a backtracking matcher 2^30 steps.
TEST(NamePattern, NoPatternTakesLong) {
  EXPECT_FALSE(Starts("(a|a)*(a|a)*(a|aa)*b", std::string(30, 'a')));
  for (const char* pattern : {"(a|a)*(a|a)*(a|aa)*b", "((?:a|a)(?1)?)c?b"}) {
    EXPECT_THAT(Call([&] { Starts(pattern, std::string(30, 'a') + "xb"); }),
                ThrowsMessage<Error>(HasSubstr("p: the pattern takes too long on the name 'aaa")));
  }
}

// A search may begin at each byte.
TEST(NamePattern, NoNameTakesLong) {
  EXPECT_THAT(Call([] { Somewhere("a*a*b", std::string(2'000'000, 'a')); }),
              ThrowsMessage<Error>(HasSubstr("p: got a name of 2000000 bytes, 'aaa")));
}

TEST(SchemeKeys, GivesWhatIsThere) {
  const Json json = Json::parse(R"({"i": 3, "f": true, "t": "x", "l": ["a", ["b", ["c"]]], "n": null})");
  SchemeKeys keys(json, "w");
  EXPECT_EQ(keys.Integer("i", 0, 3), 3);
  EXPECT_EQ(keys.Integer("n", 0, 3, 2), 2);
  EXPECT_TRUE(keys.Flag("f", false));
  EXPECT_TRUE(keys.Flag("missing", true));
  EXPECT_EQ(keys.Text("t"), "x");
  EXPECT_EQ(keys.Text("n", "other"), "other");
  EXPECT_THAT(keys.Texts("l"), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(keys.Has("n"));
  EXPECT_NO_THROW(keys.Only("t", {"1", "\"x\""}));
  EXPECT_NO_THROW(keys.Only("n", {}));
  EXPECT_NO_THROW(keys.RefuseOthers());
}

TEST(SchemeKeys, RefusesWrongValuesByName) {
  const Json json = Json::parse(R"({"i": 1.5, "big": 18446744073709551615, "t": 7, "l": ["a", 1], "other": {"a": 1}})");
  SchemeKeys keys(json, "w");
  const auto refused = [](auto call, const char* why) { EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(why))); };
  refused([&] { keys.Integer("i", 0, 9); }, "w: i: got 1.5, expected an integer from 0 to 9");
  refused([&] { keys.Integer("big", 0, 9); }, "w: big: got 18446744073709551615");
  refused([&] { keys.Integer("missing", 0, 9); }, "w: missing: missing");
  refused([&] { keys.Flag("t", true); }, "w: t: got 7, expected true or false");
  refused([&] { keys.Text("t"); }, "w: t: got 7, expected a string");
  refused([&] { keys.Texts("l"); }, "w: l: got [\"a\",1], expected a list of strings");
  refused([&] { keys.Only("t", {"8", "9"}); }, "w: t: got 7, expected 8 or 9: others are not supported");
  refused([&] { keys.Only("t", {}); }, "w: t: got 7, expected none: it is not supported");
  refused([&] { keys.RefuseOthers(); }, "w: other: got {\"a\":1}, expected no such key");
  refused([] { SchemeKeys(Json(std::string(100, 'x')), "w"); }, "xxx..., expected an object");
  keys.Ignore("other");
  EXPECT_NO_THROW(keys.RefuseOthers());
}

TEST(QuantizationConfig, UnknownMethodsAreNamed) {
  EditedCheckpoint checkpoint(ForeignFolder("awq"));
  SchemeOf(checkpoint)["quant_method"] = "hqq";
  ExpectRefused(checkpoint, "config.json: quantization_config: quant_method: got \"hqq\"", "others are not supported");
  SchemeOf(checkpoint).erase("quant_method");
  ExpectRefused(checkpoint, "quantization_config: quant_method: missing", "");
  checkpoint.config["quantization_config"] = 4;
  ExpectRefused(checkpoint, "quantization_config: got 4", "expected an object");
  checkpoint.config["quantization_config"] = nullptr;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Checkpoint(folder / "m").names(), ElementsAre("a.qweight", "a.qzeros", "a.scales"));
}

// Settings that lie in a file beside config.json alone, as AutoGPTQ and AutoAWQ wrote them.
TEST(QuantizationConfig, SettingsMayLieBeside) {
  const auto write = [](const char* golden, const char* file, const nlohmann::json& settings, const fs::path& to) {
    EditedCheckpoint checkpoint(ForeignFolder(golden));
    checkpoint.config.erase("quantization_config");
    checkpoint.Write(to);
    PutFile(to / file, settings.dump());
  };
  const TemporaryFolder folder;
  nlohmann::json gptq = EditedCheckpoint(ForeignFolder("gptq")).config["quantization_config"];
  gptq.erase("quant_method");
  gptq["model_file_base_name"] = nullptr;
  write("gptq", "quantize_config.json", gptq, folder / "gptq");
  ExpectSameBits(folder / "gptq", "gptq");
  const nlohmann::json awq = {{"zero_point", true}, {"q_group_size", 32}, {"w_bit", 4}, {"version", "GEMM"}};
  write("awq", "quant_config.json", awq, folder / "awq");
  ExpectSameBits(folder / "awq", "awq");
  write("awq", "quant_config.json", {{"w_bit", 4}, {"surprise", 1}}, folder / "surprise");
  EXPECT_THAT([&] { Checkpoint(folder / "surprise"); },
              ThrowsMessage<Error>(HasSubstr("quant_config.json: surprise: got 1, expected no such key")));
}

// In both places the same is said, or nothing is believed.
TEST(QuantizationConfig, TwoPlacesMustAgree) {
  const auto with = [](const char* file, const nlohmann::json& settings, const fs::path& to) {
    EditedCheckpoint(ForeignFolder("awq")).Write(to);
    PutFile(to / file, settings.dump());
  };
  const TemporaryFolder folder;
  with("quant_config.json", {{"w_bit", 4}, {"q_group_size", 32}, {"version", "GEMM"}}, folder / "same");
  ExpectSameBits(folder / "same", "awq");
  with("quant_config.json", {{"w_bit", 4}, {"q_group_size", 64}}, folder / "groups");
  EXPECT_THAT([&] { Checkpoint(folder / "groups"); },
              ThrowsMessage<Error>(HasSubstr("quant_config.json: group_size: got 64, but ")));
  with("quantize_config.json", {{"bits", 4}, {"zero_point", false}}, folder / "zeros");
  EXPECT_THAT([&] { Checkpoint(folder / "zeros"); }, ThrowsMessage<Error>(HasSubstr("zero_point: got false, but ")));
}

// Files that other tools leave in a folder of plain weights say nothing of it.
TEST(QuantizationConfig, AFileBesidePlainWeightsIsNotRead) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(ForeignFolder("awq"));
  checkpoint.config.erase("quantization_config");
  std::erase_if(checkpoint.tensors, [](const auto& t) { return !t.first.ends_with("scales"); });
  checkpoint.Write(folder / "m");
  for (const char* file : {"hf_quant_config.json", "quantize_config.json", "quant_config.json"})
    PutFile(folder / "m" / file, "no JSON");
  EXPECT_THAT(Checkpoint(folder / "m").names(), ElementsAre("a.scales"));
}

TEST(QuantizationConfig, TheOldestKeyIsTheSame) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(ForeignFolder("compressed-bytes"));
  checkpoint.config["compression_config"] = SchemeOf(checkpoint);
  checkpoint.config.erase("quantization_config");
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "compressed-bytes");
  EXPECT_EQ(ModelConfigText(folder / "m"), "{}\n");
}

TEST(LeftModules, NamesAreWholePartsAndPatterns) {
  const Json json = Json::parse(R"({"list": ["mlp.gate", "lm_head", "model.layers.0*", "*.e?", "a+b"]})");
  SchemeKeys keys(json, "w");
  const LeftModules left(keys, {"list", "missing"});
  for (const char* module : {"model.layers.3.mlp.gate", "mlp.gate.x", "lm_head", "model.layers.0.q", "x.ex", "a+b"})
    EXPECT_TRUE(left.Has(module)) << module;
  for (const char* module : {"model.layers.3.mlp.gate_proj", "xmlp.gate", "lm_heads", "model.layers.3", "ex", "aab"})
    EXPECT_FALSE(left.Has(module)) << module;
}

TEST(QuantizationConfig, TheModelsOwnConfigHasNone) {
  EXPECT_EQ(WithoutQuantizationConfig("{\"a\": 1, \"quantization_config\": {}}", "c"), "{\n  \"a\": 1\n}\n");
  EXPECT_EQ(WithoutQuantizationConfig("{\"a\": 1}", "c"), "{\"a\": 1}");
}

class ModuleTensorsTest : public testing::Test {
 protected:
  ModuleTensorsTest() {
    const std::vector<std::byte> bytes(8);
    WriteSafetensors(folder_ / "model.safetensors", {{"a.b.codes", DType::kI32, {1, 2}, bytes},
                                                     {"a.b.scale", DType::kF32, {2}, bytes},
                                                     {"c.codes", DType::kI32, {2, 0}, {}},
                                                     {"codes", DType::kI32, {2}, bytes}});
    files_.emplace(folder_.path());
    tensors_.emplace(*files_, "folder");
  }

  TemporaryFolder folder_;
  std::optional<CheckpointFiles> files_;
  std::optional<ModuleTensors> tensors_;
};

TEST_F(ModuleTensorsTest, FindsPartsOfModules) {
  EXPECT_THAT(tensors_->ModulesWith("codes"), ElementsAre("a.b", "c"));
  EXPECT_EQ(tensors_->Find("a.b", "zeros"), nullptr);
  EXPECT_FALSE(tensors_->IsTaken("a.b.codes"));
  EXPECT_EQ(tensors_->TakeMatrix("a.b", "codes", {DType::kI32}).name, "a.b.codes");
  EXPECT_TRUE(tensors_->IsTaken("a.b.codes"));
  EXPECT_NO_THROW(tensors_->CheckNothingLeft({"zeros"}));
}

TEST_F(ModuleTensorsTest, RefusesByName) {
  const auto refused = [](auto call, const char* why) { EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(why))); };
  refused([&] { tensors_->CheckNothingLeft({"scale"}); }, "tensor 'a.b.scale': left over");
  refused([&] { tensors_->Take("a.b", "zeros", {DType::kI32}); }, "folder: tensor 'a.b.zeros': missing");
  refused([&] { tensors_->Take("a.b", "codes", {DType::kF16, DType::kF32}); }, "got dtype I32, expected F16 or F32");
  refused([&] { tensors_->Take("c", "codes", {DType::kI32}); }, "got shape [2, 0], expected at least one element");
  refused([&] { tensors_->TakeMatrix("a.b", "scale", {DType::kF32}); }, "got shape [2], expected a matrix");
  refused([&] { tensors_->Require(*tensors_->Find("a.b", "scale"), {3}, "so"); },
          "tensor 'a.b.scale': got shape [2], expected [3]: so");
}

}  // namespace
}  // namespace tare::quantization_config_test
