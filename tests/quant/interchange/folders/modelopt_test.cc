// SPDX-License-Identifier: Apache-2.0
// Bit for bit what the formulas of modelopt's tensors make of its layouts, and what is refused.
#include <fstream>

#include "tests/support/foreign_folder.h"

namespace tare::modelopt_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kFile = "hf_quant_config.json";

// The folder with another hf_quant_config.json beside it.
void ExpectSettingsRefused(const char* golden, const std::function<void(nlohmann::json&)>& edit, const char* why) {
  nlohmann::json settings = ReadJson(ForeignFolder(golden) / kFile);
  edit(settings);
  const TemporaryFolder folder;
  EditedCheckpoint(ForeignFolder(golden)).Write(folder / "m");
  PutFile(folder / "m" / kFile, settings.dump());
  EXPECT_THAT([&] { ReadWhole(folder / "m"); }, testing::ThrowsMessage<Error>(HasSubstr(why)));
}

TEST(ModelOpt, DequantizesAsItsTensorsDo) {
  for (const char* name : {"modelopt-nvfp4", "modelopt-fp8", "modelopt-mixed"})
    ExpectSameBits(ForeignFolder(name), name);
}

TEST(ModelOpt, SchemesAndNotes) {
  const Checkpoint mixed(ForeignFolder("modelopt-mixed"));
  EXPECT_EQ(mixed.FindForeign("a.four.weight")->scheme(), "ModelOpt nvfp4/group16");
  EXPECT_EQ(mixed.FindForeign("a.rows.weight")->scheme(), "ModelOpt fp8/channel");
  EXPECT_EQ(mixed.FindForeign("a.mx.weight")->scheme(), "ModelOpt mxfp8/group32");
  EXPECT_TRUE(mixed.FindForeign("a.four.weight")->integers().has_value());
  for (const char* name : {"modelopt-nvfp4", "modelopt-fp8", "modelopt-mixed"}) {
    const Checkpoint checkpoint(ForeignFolder(name));
    EXPECT_THAT(checkpoint.notes(),
                Contains(HasSubstr("caches were meant to be rounded as well, to floats of 8 bits")));
    EXPECT_FALSE(checkpoint.Has("a.k.k_scale")) << name;
  }
}

// A second scale is a factor here, where compressed-tensors divides by it.
TEST(ModelOpt, TheSecondScaleMultiplies) {
  EditedCheckpoint checkpoint(ForeignFolder("modelopt-nvfp4"));
  auto& second = checkpoint.tensors.at("a.four.weight_scale_2");
  const float twice = 2 * second.Value(0);
  std::memcpy(second.bytes.data(), &twice, sizeof twice);
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  std::filesystem::copy_file(ForeignFolder("modelopt-nvfp4") / kFile, folder / "m" / kFile);
  std::vector<float> expected = RowsOf(*Checkpoint(ForeignFolder("modelopt-nvfp4")).FindForeign("a.four.weight"));
  for (float& value : expected) value *= 2;
  EXPECT_EQ(RowsOf(*Checkpoint(folder / "m").FindForeign("a.four.weight")), expected);
}

TEST(ModelOpt, SettingsAreHonouredOrRefused) {
  const auto set = [](const char* key, nlohmann::json value) {
    return [key, value](nlohmann::json& settings) { settings["quantization"][key] = value; };
  };
  constexpr const char *kFour = "modelopt-nvfp4", *kMixed = "modelopt-mixed";
  ExpectSettingsRefused(kFour, set("quant_algo", "W4A16_AWQ"), "quant_algo: got \"W4A16_AWQ\", expected FP8, ");
  ExpectSettingsRefused(kFour, set("quant_algo", nullptr), "gives 'a.four' no quant_algo");
  ExpectSettingsRefused(kFour, set("group_size", 32), "group_size: got 32, expected an integer from 16 to 16");
  ExpectSettingsRefused(kFour, set("pre_quant_scale", true), "pre_quant_scale: got true, expected false");
  ExpectSettingsRefused(kFour, set("exclude_modules", {"*.fou?"}), "tensor 'a.four.weight': got codes");
  ExpectSettingsRefused(kFour, set("surprise", 1), "quantization: surprise: got 1, expected no such key");
  ExpectSettingsRefused(kFour, set("quant_algo", "FP8"), "tensor 'a.four.weight': got dtype U8");
  ExpectSettingsRefused(kMixed, set("quantized_layers", 3), "quantized_layers: got 3, expected an object of modules");
  ExpectSettingsRefused(kMixed, set("quantized_layers", {{"a.four", {{"quant_algo", "INT3"}}}}), "got \"INT3\"");
  EditedCheckpoint checkpoint(ForeignFolder("modelopt-fp8"));
  checkpoint.tensors["a.eight.pre_quant_scale"] = checkpoint.tensors.at("a.eight.weight_scale");
  ExpectRefused(checkpoint, "tensor 'a.eight.pre_quant_scale': left over", "");
}

}  // namespace
}  // namespace tare::modelopt_test
