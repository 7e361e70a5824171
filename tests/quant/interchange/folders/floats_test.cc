// SPDX-License-Identifier: Apache-2.0
// Bit for bit what transformers' dequantization and the formulas of modelopt's tensors make of codes and scales, blocks
// of MXFP4 against their formula, one value at a time, and what is refused (of MXFP4 in families/gpt_oss_test.cc).
#include <cmath>
#include <fstream>

#include "quant/checkpoint/checkpoint.h"
#include "tests/support/checkpoint.h"
#include "tests/support/foreign_folder.h"
#include "tests/support/golden.h"

namespace tare::folders_floats_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Fp8, DequantizesAsTransformersDoes) {
  for (const char* name : {"fp8-blocks", "fp8-static", "fp8-static-inv"}) {
    ExpectSameBits(ForeignFolder(name), name);
    EXPECT_NE(Checkpoint(ForeignFolder(name)).Find("a.plain.weight"), nullptr) << name;
  }
}

TEST(Fp8, SchemesSayWhatSharesAScale) {
  EXPECT_EQ(Checkpoint(ForeignFolder("fp8-blocks")).FindForeign("a.ragged.weight")->scheme(), "fp8 fp8/block16x32");
  EXPECT_EQ(Checkpoint(ForeignFolder("fp8-static")).FindForeign("a.q.weight")->scheme(), "fp8 fp8/tensor");
}

TEST(Fp8, InputsAndCachesAreNotes) {
  for (const char* name : {"fp8-static", "fp8-static-inv"}) {
    const Checkpoint checkpoint(ForeignFolder(name));
    EXPECT_THAT(checkpoint.notes(),
                ElementsAre(HasSubstr("--plan k.in=fp8e4m3/tensor+static,q.in=fp8e4m3/tensor+static"),
                            HasSubstr("static scales are the file's"), HasSubstr("--cache cache_k=int8/token")));
    EXPECT_TRUE(checkpoint.FindForeign("a.q.weight")->input_scale().has_value());
    EXPECT_FALSE(checkpoint.Has("a.k.k_scale"));
  }
}

// Without the key, one scale is the tensor's, and more are of transformers' blocks of 128 by 128.
TEST(Fp8, BlocksWithoutTheKey) {
  EditedCheckpoint checkpoint(ForeignFolder("fp8-static"));
  SchemeOf(checkpoint)["weight_block_size"] = nullptr;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  ExpectSameBits(folder / "m", "fp8-static");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-blocks"));
  SchemeOf(checkpoint).erase("weight_block_size");
  ExpectRefused(checkpoint, "tensor 'a.column.weight_scale_inv': got shape [3, 1], expected [1, 1]", "block128x128");
  SchemeOf(checkpoint)["weight_block_size"] = nullptr;
  ExpectRefused(checkpoint, "tensor 'a.column.weight_scale_inv': got shape [3, 1], expected [1]", "fp8/tensor");
}

TEST(Fp8, KeysAndPartsAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint(ForeignFolder("fp8-blocks"));
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, "", why);
  };
  refused("fmt", "e5m2", "fmt: got \"e5m2\", expected \"e4m3\"");
  refused("activation_scheme", "other", "expected \"dynamic\" or \"static\"");
  refused("weight_block_size", {16}, "expected rows and columns, two positive integers");
  refused("weight_block_size", {16, 16},
          "got shape [1, 1], expected [1, 2]: a.power.weight [16, 32] is fp8 fp8/block16x16");
  refused("surprise", 1, "expected no such key");
  refused("modules_to_not_convert", {"a.column"}, "leaves this module as it is");
  EditedCheckpoint checkpoint(ForeignFolder("fp8-blocks"));
  checkpoint.tensors.erase("a.whole.weight_scale_inv");
  ExpectRefused(checkpoint, "tensor 'a.whole.weight_scale_inv': missing", "");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-blocks"));
  checkpoint.tensors.at("a.whole.weight").dtype = DType::kF8E4M3Fnuz;
  ExpectRefused(checkpoint, "tensor 'a.whole.weight': got dtype F8_E4M3FNUZ", "expected F8_E4M3");
  checkpoint = EditedCheckpoint(ForeignFolder("fp8-static"));
  checkpoint.tensors["a.q.weight_scale_inv"] = checkpoint.tensors.at("a.q.weight_scale");
  ExpectRefused(checkpoint, "tensor 'a.k.weight_scale_inv': missing", "");
}

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

TEST(Mxfp4, ValuesAreCodesTimesPowersOfTwo) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const EditedCheckpoint stored(GoldenFolder("gpt-oss-mxfp4"));
  const Checkpoint files(GoldenFolder("gpt-oss-mxfp4"));
  const std::string name = "model.layers.1.mlp.experts.gate_up_proj";
  const ForeignMatrix* matrix = files.FindForeign(name + ".weight");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->scheme(), "gpt-oss mxfp4");
  EXPECT_TRUE(matrix->HasCodes());
  const auto &codes = stored.tensors.at(name + "_blocks"), &scales = stored.tensors.at(name + "_scales");
  ASSERT_EQ(matrix->out(), codes.shape[0] * codes.shape[1]);
  ASSERT_EQ(matrix->in(), codes.shape[2] * 32);
  EXPECT_EQ(matrix->bytes(), static_cast<int64_t>(codes.bytes.size() + scales.bytes.size()));
  std::vector<float> row(static_cast<size_t>(matrix->in()));
  for (int64_t r = 0; r < matrix->out(); ++r) {
    matrix->Row(r, row.data());
    for (int64_t c = 0; c < matrix->in(); ++c) {
      const int64_t block = r * codes.shape[2] + c / 32;
      const auto byte = static_cast<unsigned>(codes.bytes[static_cast<size_t>(block * 16 + c % 32 / 2)]);
      const unsigned code = c % 2 == 0 ? byte & 15u : byte >> 4u;
      const float value = (code >= 8 ? -1.0f : 1.0f) * kValues[code % 8];
      const int exponent = static_cast<int>(scales.bytes[static_cast<size_t>(block)]) - 127;
      ASSERT_EQ(row[static_cast<size_t>(c)], std::ldexp(value, exponent)) << r << " " << c;
    }
  }
}

}  // namespace
}  // namespace tare::folders_floats_test
