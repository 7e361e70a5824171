// SPDX-License-Identifier: Apache-2.0
// Bit for bit what AutoAWQ's own unpacking makes of its layers, and what is refused.
#include "tests/support/foreign_folder.h"

namespace tare::folders_awq_test {
namespace {

TEST(Awq, DequantizesAsAutoAwqDoes) { ExpectSameBits(ForeignFolder("awq"), "awq"); }

TEST(Awq, KeysAreHonouredOrRefused) {
  const auto refused = [](const char* key, const nlohmann::json& value, const char* why) {
    EditedCheckpoint checkpoint(ForeignFolder("awq"));
    SchemeOf(checkpoint)[key] = value;
    ExpectRefused(checkpoint, std::string("quantization_config: ") + key, why);
  };
  refused("bits", 3, "expected 4");
  refused("bits", nullptr, "missing");
  refused("group_size", 0, "expected -1 or a positive number");
  refused("version", "gemv", "expected \"gemm\"");
  refused("backend", "llm-awq", "expected \"autoawq\"");
  refused("modules_to_not_convert", 3, "expected a list of strings");
  refused("surprise", 1.5, "expected no such key");
}

// Names are whole parts between points: 'mlp.gate' is the router, and not 'mlp.gate_proj'.
TEST(Awq, ModulesThatStayAreNamedByWholeParts) {
  const auto notes = [](const std::string& module, const char* left) {
    EditedCheckpoint checkpoint(ForeignFolder("awq"));
    for (const char* part : {"qweight", "qzeros", "scales"}) {
      checkpoint.tensors[module + "." + part] = checkpoint.tensors.at(std::string("a.") + part);
      checkpoint.tensors.erase(std::string("a.") + part);
    }
    SchemeOf(checkpoint)["modules_to_not_convert"] = {left};
    const TemporaryFolder folder;
    checkpoint.Write(folder / "m");
    return RowsOf(*Checkpoint(folder / "m").FindForeign(module + ".weight"));
  };
  const std::vector<float> right = RowsOf(*Checkpoint(ForeignFolder("awq")).FindForeign("a.weight"));
  for (const char* left : {"mlp.gate", "gate", "layers.1", "lm_head", "model.layers.1", "down_proj"})
    EXPECT_EQ(notes("model.layers.12.mlp.gate_proj", left), right) << left;
  for (const char* left : {"mlp.gate_proj", "gate_proj", "layers.12", "model", "model.layers.12.mlp.gate_proj", "mlp"})
    EXPECT_THROW(notes("model.layers.12.mlp.gate_proj", left), Error) << left;
}

TEST(Awq, PartsMustFit) {
  EditedCheckpoint checkpoint(ForeignFolder("awq"));
  SchemeOf(checkpoint)["group_size"] = 16;
  ExpectRefused(checkpoint, "tensor 'a.qzeros': got shape [2, 4], expected [4, 4]", "AWQ int4/group16");
  SchemeOf(checkpoint)["group_size"] = 48;
  ExpectRefused(checkpoint, "tensor 'a.qweight': got 64 rows", "a multiple of group_size 48");
  SchemeOf(checkpoint)["group_size"] = 32;
  SchemeOf(checkpoint)["zero_point"] = false;
  ExpectRefused(checkpoint, "tensor 'a.weight': zero point of row 0, group 0 is", "zero_point: false");
  SchemeOf(checkpoint)["zero_point"] = true;
  SchemeOf(checkpoint)["modules_to_not_convert"] = {"a"};
  ExpectRefused(checkpoint, "tensor 'a.qweight': got codes", "leaves this module as it is");
  SchemeOf(checkpoint).erase("modules_to_not_convert");
  checkpoint.tensors["a.g_idx"] = checkpoint.tensors.at("a.qzeros");
  ExpectRefused(checkpoint, "tensor 'a.g_idx': left over", "");
}

}  // namespace
}  // namespace tare::folders_awq_test
