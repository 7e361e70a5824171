// SPDX-License-Identifier: Apache-2.0
#include "quant/file/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace tare::dtype_test {
namespace {

TEST(DType, NamesAreReadBack) {
  std::set<std::string_view> names;
  for (const DTypeInfo& info : kDTypes) {
    EXPECT_EQ(ParseDType(info.name), info.dtype);
    EXPECT_EQ(Name(info.dtype), info.name);
    EXPECT_EQ(Bits(info.dtype), info.bits);
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), kDTypes.size());
  EXPECT_EQ(ParseDType("f32"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

TEST(DType, BitsOfTheCommonOnes) {
  EXPECT_EQ(Bits(DType::kF32), 32);
  EXPECT_EQ(Bits(DType::kBF16), 16);
  EXPECT_EQ(Bits(DType::kF16), 16);
  EXPECT_EQ(Bits(DType::kI64), 64);
  EXPECT_EQ(Bits(DType::kI8), 8);
  EXPECT_EQ(Bits(DType::kBool), 8);
  EXPECT_EQ(Bits(DType::kF4), 4);
  EXPECT_EQ(Bits(DType::kF6E2M3), 6);
}

TEST(DType, ElementCountIsChecked) {
  constexpr int64_t k2To40 = int64_t{1} << 40;
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{2, 3, 4}), 24);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{k2To40, 0}), 0);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{2, -1}), std::nullopt);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{k2To40, k2To40}), std::nullopt);
  EXPECT_EQ(ElementCount(std::vector<int64_t>{INT64_MAX, 1}), INT64_MAX);
}

TEST(DType, ByteCountIsCheckedAndWhole) {
  EXPECT_EQ(ByteCount(DType::kF32, std::vector<int64_t>{2, 3}), 24);
  EXPECT_EQ(ByteCount(DType::kF4, std::vector<int64_t>{4}), 2);
  EXPECT_EQ(ByteCount(DType::kF4, std::vector<int64_t>{3}), std::nullopt);
  EXPECT_EQ(ByteCount(DType::kF6E3M2, std::vector<int64_t>{4}), 3);
  EXPECT_EQ(ByteCount(DType::kF6E3M2, std::vector<int64_t>{6}), std::nullopt);
  EXPECT_EQ(ByteCount(DType::kU8, std::vector<int64_t>{INT64_MAX}), std::nullopt);  // in bits beyond int64
  EXPECT_EQ(ByteCount(DType::kU8, std::vector<int64_t>{INT64_MAX / 8}), INT64_MAX / 8);
}

TEST(DType, ShapeTextIsAList) {
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText(std::vector<int64_t>{2, 37}), "[2, 37]");
  EXPECT_EQ(ShapeText(std::vector<int64_t>(1'000'000, 1)),
            "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, .. (1000000 dimensions)]");
}

}  // namespace
}  // namespace tare::dtype_test
