// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/quantized_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/format/pack.h"

namespace tare::linear_reference_test {
namespace {

// By hand: x 127 1 -2 3 has scale 1 and itself as codes.
TEST(LinearReference, ByHand) {
  QuantizedMatrixBuffer w(Format::kInt8, 1, 4, 2);
  const std::vector<int8_t> codes = {1, -2, 3, 4};
  Pack<int8_t>(Format::kInt8, codes, {w.Codes(0), 4});
  w.Scales(0)[0] = 0.5f;
  w.Scales(0)[1] = 0.25f;
  const float x[] = {127, 1, -2, 3}, bias[] = {10};
  const LinearReference result = ReferenceLinear(x, 1, Format::kInt8, w.view(), bias);
  EXPECT_THAT(result.sums, testing::ElementsAre(125, 6));
  EXPECT_THAT(result.y, testing::ElementsAre(62.5 + 1.5 + 10));
}

}  // namespace
}  // namespace tare::linear_reference_test
