// SPDX-License-Identifier: Apache-2.0
// scale * code + bias of what AutoRound's export packs for MLX, and what is refused.
#include "quant/interchange/folders/quantization_config.h"

#include "tests/support/foreign_folder.h"

namespace tare::mlx_test {
namespace {

EditedCheckpoint Golden() {
  EditedCheckpoint checkpoint(ForeignFolder("mlx"));
  checkpoint.config.erase("quantization_config");  // the same as quantization
  return checkpoint;
}

TEST(Mlx, DequantizesEveryWidth) {
  ExpectSameBits(ForeignFolder("mlx"), "mlx");
  EXPECT_EQ(Checkpoint(ForeignFolder("mlx")).FindForeign("a.int3.weight")->scheme(), "MLX int3/group32");
}

TEST(Mlx, EitherKeyWillDo) {
  const TemporaryFolder folder;
  Golden().Write(folder / "m");
  ExpectSameBits(folder / "m", "mlx");
  EXPECT_EQ(ModelConfigText(folder / "m"), "{}\n");
}

// Experts in one tensor [experts, out, in]: their matrices one below another.
TEST(Mlx, ExpertsAreOneMatrix) {
  for (const char* module : {"a.int3", "a.int4", "a.int8"}) {
    EditedCheckpoint checkpoint = Golden();
    for (const char* part : {"weight", "scales", "biases"}) {
      auto& tensor = checkpoint.tensors.at(std::string(module) + "." + part);
      tensor.shape = {4, tensor.shape[0] / 4, tensor.shape[1]};
    }
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    ExpectSameBits(folder / "m", "mlx");
    checkpoint.tensors.at(std::string(module) + ".scales").shape = {8, 4, 64 / 32};
    if (std::string(module) == "a.int4") ExpectRefused(checkpoint, "tensor 'a.int4.scales': got shape [8, 4, 2]", "");
  }
}

TEST(Mlx, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint = Golden();
    checkpoint.config["quantization"][key] = value;
    ExpectRefused(checkpoint, "config.json: quantization: ", why);
  };
  refused("mode", "mxfp4", "mode: got \"mxfp4\", expected \"affine\"");
  refused("bits", 1, "bits: got 1, expected an integer from 2 to 8");
  refused("group_size", 0, "group_size: got 0");
  refused("surprise", 3, "surprise: got 3, expected no such key");
  refused("a.int3", {{"bits", 3}}, "a.int3: group_size: missing");
  EditedCheckpoint checkpoint = Golden();
  checkpoint.config["quantization_config"] = {{"bits", 4}};
  ExpectRefused(checkpoint, "config.json: got quantization and quantization_config, which differ", "");
  checkpoint = Golden();
  checkpoint.config["quantization"]["a.int4"] = false;
  ExpectRefused(checkpoint, "tensor 'a.int4.scales': got codes, expected a plain weight", "says false");
}

TEST(Mlx, PartsMustFit) {
  for (const char* part : {"weight", "scales", "biases"}) {
    EditedCheckpoint checkpoint = Golden();
    checkpoint.tensors.erase(std::string("a.int4.") + part);
    ExpectRefused(checkpoint, "tensor 'a.int4.", part == std::string("scales") ? "left over" : "missing");
  }
  EditedCheckpoint checkpoint = Golden();
  checkpoint.config["quantization"]["a.int3"] = {{"bits", 5}, {"group_size", 32}};
  ExpectRefused(checkpoint, "tensor 'a.int3.weight': got 6 words in a row, expected whole groups", "MLX int5/group32");
  checkpoint = Golden();
  checkpoint.config["quantization"]["group_size"] = 64;
  ExpectRefused(checkpoint, "tensor 'a.int4.scales': got shape [32, 2], expected [32, 1]", "MLX int4/group64");
  checkpoint = Golden();
  checkpoint.tensors.at("a.int4.biases").SetBits(3, 0x7c00);
  ExpectRefused(checkpoint, "'a.int4.biases', index 3: got a scale of inf", "");
}

}  // namespace
}  // namespace tare::mlx_test
