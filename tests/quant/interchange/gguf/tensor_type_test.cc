// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/tensor_type.h"

#include <gtest/gtest.h>

namespace tare::tensor_type_test {
namespace {

using namespace gguf;

TEST(GgufTensorType, AreNamed) {
  ASSERT_NE(FindType(12), nullptr);
  EXPECT_EQ(FindType(12)->name, "Q4_K");
  EXPECT_EQ(FindType(12)->bytes, 144);
  EXPECT_EQ(TypeText(12), "Q4_K (type 12)");
  EXPECT_EQ(FindType(23), nullptr);
  EXPECT_EQ(TypeText(23), "IQ4_XS (type 23)");
  EXPECT_EQ(TypeText(4), "unknown (type 4)");
  EXPECT_EQ(TypesRead(), "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or MXFP4");
}

}  // namespace
}  // namespace tare::tensor_type_test
