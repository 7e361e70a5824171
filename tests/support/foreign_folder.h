// SPDX-License-Identifier: Apache-2.0
// Checkpoints of other tools in tests/data/interchange, what their own unpacking makes of them, and damaged copies.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare {

inline std::filesystem::path ForeignFolder(const std::string& name) {
  return std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/interchange" / name;
}

inline std::vector<float> RowsOf(const ForeignMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.out() * matrix.in()));
  for (int64_t row = 0; row < matrix.out(); ++row) matrix.Row(row, values.data() + row * matrix.in());
  return values;
}

// Every matrix of the folder is, bit for bit, what expected.safetensors of `golden` has; only a zero may have another
// sign, which sums of products with the identity (AutoRound's layers) lose.
inline void ExpectSameBits(const std::filesystem::path& folder, const std::string& golden) {
  const Checkpoint checkpoint(folder);
  const Safetensors expected(ForeignFolder(golden) / "expected.safetensors");
  for (const TensorView& tensor : expected.tensors()) {
    const ForeignMatrix* matrix = checkpoint.FindForeign(tensor.name);
    ASSERT_NE(matrix, nullptr) << golden << " " << tensor.name;
    ASSERT_EQ(tensor.shape, (std::vector{matrix->out(), matrix->in()})) << golden << " " << tensor.name;
    const std::vector<float> got = RowsOf(*matrix), values = ValuesOf<float>(expected, tensor.name);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(got[i] == values[i]) << golden << " " << tensor.name << " " << i << ": got " << got[i]
                                       << ", expected " << values[i];
  }
}

inline nlohmann::json& SchemeOf(EditedCheckpoint& checkpoint) { return checkpoint.config["quantization_config"]; }

// Opened, and every row taken.
inline void ReadWhole(const std::filesystem::path& folder) {
  const Checkpoint checkpoint(folder);
  for (const std::string& name : checkpoint.names()) {
    if (const ForeignMatrix* matrix = checkpoint.FindForeign(name)) RowsOf(*matrix);
  }
}

inline void ExpectRefused(const EditedCheckpoint& checkpoint, const std::string& what, const std::string& why) {
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  EXPECT_THAT([&] { ReadWhole(folder / "m"); },
              testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr(what), testing::HasSubstr(why))));
}

}  // namespace tare
