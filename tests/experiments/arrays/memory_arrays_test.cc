// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/memory_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(MemoryArraysTest, AreReadAsThoseOfAFile) {
  const std::vector<float> values{1.0f, 2.0f, 3.0f, 4.0f};
  const std::vector<int64_t> ids{7, 9};
  const MemoryArrays arrays("batch 3", {{{"y", DType::kF32, {2, 2}}, std::as_bytes(std::span(values))},
                                        {{"x", DType::kI64, {2}}, std::as_bytes(std::span(ids))}});
  EXPECT_EQ(arrays.path(), "batch 3");
  ASSERT_EQ(arrays.arrays().size(), 2u);
  EXPECT_EQ(arrays.arrays()[0].name, "x");  // by name
  std::vector<float> column(2);
  arrays.Values(arrays.arrays()[1]).Read(1, 2, 2, column.data());
  EXPECT_THAT(column, testing::ElementsAre(2.0f, 4.0f));
  EXPECT_EQ(arrays.Values(arrays.arrays()[0]).Integer(1), 9);
}

}  // namespace
}  // namespace tare
