// SPDX-License-Identifier: Apache-2.0
#include "quant/base/aligned.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace tare::aligned_test {
namespace {

template <typename T>
bool OnCacheLine(const AlignedBuffer<T>& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0;
}

TEST(AlignedBuffer, StartsOnACacheLineWhateverTheSize) {
  for (size_t size = 1; size < 300; ++size) {
    const AlignedBuffer<float> floats(size);
    const AlignedBuffer<int8_t> bytes(size);
    EXPECT_TRUE(OnCacheLine(floats) && OnCacheLine(bytes)) << size;
    EXPECT_EQ(floats.size(), size);
    EXPECT_EQ(floats.span().size(), size);
  }
}

TEST(AlignedBuffer, IsEmptyByDefault) {
  const AlignedBuffer<float> buffer;
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_TRUE(buffer.span().empty());
}

TEST(AlignedBuffer, ReserveKeepsWhatNeedNotGrow) {
  AlignedBuffer<int> buffer(4);
  for (int i = 0; i < 4; ++i) buffer[static_cast<size_t>(i)] = i;
  const int* const data = buffer.data();
  buffer.Reserve(3);
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(buffer.size(), 4u);
  EXPECT_EQ(buffer[3], 3);
  buffer.Reserve(5);
  EXPECT_EQ(buffer.size(), 5u);
  buffer.Reset(2);
  EXPECT_EQ(buffer.size(), 2u);
}

TEST(AlignedBuffer, MovesItsContents) {
  AlignedBuffer<int> first(1);
  first[0] = 7;
  const AlignedBuffer<int> second = std::move(first);
  EXPECT_EQ(second[0], 7);
}

TEST(AlignedBuffer, RefusesSizesWhoseBytesOverflow) {
  AlignedBuffer<double> buffer;
  EXPECT_THROW(buffer.Reset(std::numeric_limits<size_t>::max() / 8 + 2), Error);
  EXPECT_THROW(AlignedBuffer<double>{std::numeric_limits<size_t>::max()}, Error);
}

}  // namespace
}  // namespace tare::aligned_test
