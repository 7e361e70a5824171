// SPDX-License-Identifier: Apache-2.0
// What whole problems meet once in a million rows: differences whose ends, or whose codes, lie at ties.
#include "kernels/attention/integer/code_stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quant/base/aligned.h"

namespace tare {
namespace {

struct Coded {
  std::vector<int> bytes;
  int zero;
};

// Bytes of a row of differences: each is map 1's or map 2's p alone, weighed with 32767 / 32768.
Coded CodesOf(const std::vector<int>& differences, Format format) {
  AlignedBuffer<int16_t> p1(16 * 64), p2(16 * 64), a(2 * 16);
  AlignedBuffer<uint8_t> codes(16 * 64);
  AlignedBuffer<float> scales(16);
  AlignedBuffer<int32_t> zeros(16);
  std::fill_n(p1.data(), p1.size(), int16_t{0});
  std::fill_n(p2.data(), p2.size(), int16_t{0});
  std::fill_n(a.data(), a.size(), int16_t{32767});
  std::fill_n(scales.data(), scales.size(), 1.0f);
  for (size_t i = 0; i < differences.size(); ++i) {
    const int size = std::abs(differences[i]);
    int p = size;
    while (((p * 32767 + 16384) >> 15) < size) ++p;
    (differences[i] < 0 ? p2 : p1)[static_cast<int64_t>(i)] = static_cast<int16_t>(p);
  }
  EarlyStage({.rows = 16,
              .tiles = 1,
              .format = format,
              .p1 = p1.data(),
              .p2 = p2.data(),
              .tile_stride = 16 * 64,
              .a1 = a.data(),
              .a2 = a.data() + 16,
              .codes = codes.data(),
              .stride = 64,
              .scales = scales.data(),
              .zeros = zeros.data()});
  return {{codes.data(), codes.data() + differences.size()}, zeros[0]};
}

// -20293 / step is 128.5 and a few millionths: rounded first as an f32 product and then by an FMA, its code was -1.
TEST(CodeStage, TheSmallestDifferenceIsCode0) {
  const Coded coded = CodesOf({19977, -20293, 0}, Format::kU8);
  EXPECT_EQ(coded.bytes, (std::vector<int>{255, 0, coded.zero}));
}

// 2048 / step is 11.5: to the even code, wherever the zero point is (71 here).
TEST(CodeStage, TiesGoToTheEvenCodeBeforeTheZeroPointIsAdded) {
  const Coded coded = CodesOf({32766, -12646, 2048, 0}, Format::kU8);
  EXPECT_EQ(coded.zero, 71);
  EXPECT_EQ(coded.bytes, (std::vector<int>{255, 0, 71 + 12, 71}));
}

TEST(CodeStage, AllEndsStayInTheFormat) {
  for (const Format format : {Format::kU8, Format::kU6, Format::kU4}) {
    for (int above = 0; above <= 32766; above += 331) {
      for (int below = 0; below <= 32766; below += 317) {
        const Coded coded = CodesOf({above, -below}, format);
        ASSERT_TRUE(coded.bytes[0] <= Info(format).max_code && coded.bytes[1] == 0) << above << ' ' << below;
      }
    }
  }
}

}  // namespace
}  // namespace tare
