// SPDX-License-Identifier: Apache-2.0
#include "quant/format/foreign_matrix.h"

#include <gtest/gtest.h>

namespace tare::foreign_matrix_test {
namespace {

// 3 x 64 at 4 bits with a scale of 16 bits per 32 values are 4.5 bits per weight.
TEST(ForeignMatrix, BitsPerWeightCountAllThatIsStored) {
  const SchemeTotals totals{.matrices = 1, .values = 3 * 64, .bytes = 3 * 64 / 2 + 3 * 2 * 2};
  EXPECT_EQ(totals.BitsPerWeight(), 4.5);
}

}  // namespace
}  // namespace tare::foreign_matrix_test
