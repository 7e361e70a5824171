// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/written_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/quant/file/temporary_folder.h"

namespace tare::written_tensor_test {
namespace {

TEST(WrittenTensor, WhatIsNotQuantizedStaysAsItIsStored) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(12, std::byte{0x40});
  WriteSafetensors(folder / "model.safetensors", {{"a", DType::kBF16, {2, 3}, bytes}});
  const Checkpoint files(folder.path());
  const WrittenTensor tensor(files, "a");
  EXPECT_EQ(tensor.view().dtype, DType::kBF16);
  EXPECT_EQ(tensor.view().bytes.data(), files.Find("a")->bytes.data());
  EXPECT_EQ(tensor.stored_bytes(), 12);
}

TEST(WrittenTensor, WhatAnotherToolQuantizedIsWrittenInF32) {
  const Checkpoint files(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf/llama-q4_k_m.gguf");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const ForeignMatrix& matrix = *files.FindForeign(name);
  const WrittenTensor tensor(files, name);
  EXPECT_EQ(tensor.view().dtype, DType::kF32);
  EXPECT_EQ(tensor.view().shape, (std::vector<int64_t>{matrix.out(), matrix.in()}));
  EXPECT_EQ(tensor.stored_bytes(), matrix.bytes());
  std::vector<float> row(static_cast<size_t>(matrix.in()));
  matrix.Row(5, row.data());
  EXPECT_TRUE(
      std::ranges::equal(std::as_bytes(std::span(row)),
                         tensor.view().bytes.subspan(5 * row.size() * sizeof(float), row.size() * sizeof(float))));
}

}  // namespace
}  // namespace tare::written_tensor_test
