// SPDX-License-Identifier: Apache-2.0
// Blocks of MXFP4 against their formula, one value at a time; families/gpt_oss_test.cc has refusals.
#include "quant/interchange/folders/quantization_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/checkpoint/checkpoint.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::mxfp4_test {
namespace {

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
}  // namespace tare::mxfp4_test
