// SPDX-License-Identifier: Apache-2.0
// The same codes and scales under the names of three tools are the same matrix; the tools' own values are in
// compressed_tensors_test.cc, fp8_test.cc and modelopt_test.cc.
#include "quant/interchange/folders/scaled_module.h"

#include "tests/support/foreign_folder.h"

namespace tare::scaled_module_test {
namespace {

// Module a.f8block of compressed-bytes alone, its scale under another name.
EditedCheckpoint Renamed(const std::string& scale, const nlohmann::json& settings) {
  EditedCheckpoint checkpoint(ForeignFolder("compressed-bytes"));
  std::erase_if(checkpoint.tensors, [](const auto& t) { return !t.first.starts_with("a.f8block."); });
  auto part = checkpoint.tensors.extract("a.f8block.weight_scale");
  part.key() = "a.f8block." + scale;
  checkpoint.tensors.insert(std::move(part));
  SchemeOf(checkpoint) = settings;
  return checkpoint;
}

TEST(ScaledModule, ToolsDifferInNames) {
  const std::vector<float> right =
      RowsOf(*Checkpoint(ForeignFolder("compressed-bytes")).FindForeign("a.f8block.weight"));
  const TemporaryFolder folder;
  for (const char* scale : {"weight_scale", "weight_scale_inv"}) {
    Renamed(scale, {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}}).Write(folder / scale);
    EXPECT_EQ(RowsOf(*Checkpoint(folder / scale).FindForeign("a.f8block.weight")), right) << scale;
  }
}

TEST(ScaledModule, APartOfAnotherToolIsLeftOver) {
  for (const char* part : {"weight_scale_2", "weight_global_scale", "bitmask", "output_scale"}) {
    EditedCheckpoint checkpoint = Renamed("weight_scale", {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}});
    checkpoint.tensors[std::string("a.f8block.") + part] = checkpoint.tensors.at("a.f8block.weight_scale");
    ExpectRefused(checkpoint, std::string("tensor 'a.f8block.") + part + "': left over", "");
  }
}

}  // namespace
}  // namespace tare::scaled_module_test
