// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/written_tensor.h"

#include <gtest/gtest.h>

#include "tests/quant/file/temporary_folder.h"

namespace tare {
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

}  // namespace
}  // namespace tare
