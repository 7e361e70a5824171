// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_digest.h"

#include <gtest/gtest.h>

#include <set>

#include "quant/base/parallel.h"

namespace tare {
namespace {

std::string DigestOf(const ArrayInfo& info, const std::vector<float>& values) {
  Sha256 sha;
  AddArray(sha, info, {DType::kF32, std::as_bytes(std::span(values))});
  return sha.Hex();
}

TEST(ArrayDigestTest, ValuesInAnotherTypeAreTheSame) {
  const std::vector<float> values{1.0f, -2.0f, 0.5f};
  const std::vector<double> wide(values.begin(), values.end());
  const ArrayInfo info{"x", DType::kF32, {3}};
  Sha256 sha;
  AddArray(sha, {"x", DType::kF64, {3}}, {DType::kF64, std::as_bytes(std::span(wide))});
  EXPECT_EQ(sha.Hex(), DigestOf(info, values));
}

// One bit anywhere, two values changed for each other, zeros at the end, another name or shape.
TEST(ArrayDigestTest, WhatDiffersIsSeen) {
  constexpr int64_t kCount = 9001;  // two blocks, and a tail
  std::vector<float> values(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13);
  const ArrayInfo info{"x", DType::kF32, {kCount}};
  std::set<std::string> seen{DigestOf(info, values), DigestOf({"y", DType::kF32, {kCount}}, values),
                             DigestOf({"x", DType::kF32, {1, kCount}}, values)};
  for (const size_t i : {0uz, 1uz, 7uz, 4095uz, 4096uz, 8999uz, 9000uz}) {
    std::vector<float> other = values;
    other[i] = -other[i] - 1.0f;
    seen.insert(DigestOf(info, other));
    other = values;
    std::swap(other[i], other[(i + 2) % values.size()]);
    seen.insert(DigestOf(info, other));
  }
  values.push_back(0.0f);
  seen.insert(DigestOf({"x", DType::kF32, {kCount + 1}}, values));
  EXPECT_EQ(seen.size(), 3u + 14u + 1u);
}

TEST(ArrayDigestTest, AnyNumberOfThreads) {
  const std::vector<float> values(50000, 1.5f);
  const ArrayInfo info{"x", DType::kF32, {50000}};
  SetThreads(1);
  const std::string one = DigestOf(info, values);
  SetThreads(3);
  EXPECT_EQ(DigestOf(info, values), one);
  SetThreads(0);
}

}  // namespace
}  // namespace tare
