// SPDX-License-Identifier: Apache-2.0
// Against plain loops of fused multiply-adds, bit for bit.
#include "quant/algorithms/second_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/random_quantized.h"

namespace tare::panel_products_test {
namespace {

AlignedBuffer<float> Buffer(const std::vector<float>& values) {
  AlignedBuffer<float> buffer(values.size());
  std::ranges::copy(values, buffer.data());
  return buffer;
}

// sums[j][r] += m[k][j] x[k][r], one k after another.
void AddPlainly(const std::vector<float>& m, int64_t n, Range k, Range columns, const AlignedBuffer<float>& x,
                AlignedBuffer<float>& sums) {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      float& sum = sums[j * kRowsTogether + r];
      for (int64_t i = k.begin; i < k.end; ++i) sum = std::fma(m[i * n + j], x[i * kRowsTogether + r], sum);
    }
  }
}

TEST(PanelProducts, AreTheSumsOfPlainLoops) {
  for (const int64_t n : {1, 7, 8, 9, 100, 300}) {
    const std::vector<float> m = RandomNormal(static_cast<size_t>(n * n), static_cast<unsigned>(n));
    const Panels panels(Panels::Shape::kFull, n, m.data());
    EXPECT_EQ(panels.count(), (n + 7) / 8);
    const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(n), 1));
    const std::vector<float> before = RandomNormal(Panels::ValuesFor(n), 2);
    for (const Range k : {Range{0, n}, {0, n / 2}, {n / 2, n}, {n, n}}) {
      AlignedBuffer<float> sums = Buffer(before), expected = Buffer(before);
      panels.AddProducts(k, {0, panels.count()}, x.data(), sums.data());
      AddPlainly(m, n, k, {0, n}, x, expected);
      EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span())) << n << ' ' << k.begin << ' ' << k.end;
    }
  }
}

TEST(PanelProducts, OfSomePanelsLeaveTheOthers) {
  constexpr int64_t kSize = 40;
  const std::vector<float> m = RandomNormal(kSize * kSize, 3);
  const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(kSize), 4));
  AlignedBuffer<float> sums = Buffer(std::vector<float>(Panels::ValuesFor(kSize), 1.0f)),
                       expected = Buffer(std::vector<float>(Panels::ValuesFor(kSize), 1.0f));
  Panels(Panels::Shape::kFull, kSize, m.data()).AddProducts({3, 21}, {1, 3}, x.data(), sums.data());
  AddPlainly(m, kSize, {3, 21}, {8, 24}, x, expected);
  EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span()));
}

// However the k are cut into calls.
TEST(PanelProducts, OfPartsAreTheSameBits) {
  constexpr int64_t kSize = 290;
  const std::vector<float> m = RandomNormal(kSize * kSize, 5);
  const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(kSize), 6));
  const Panels panels(Panels::Shape::kFull, kSize, m.data());
  AlignedBuffer<float> once = Buffer(std::vector<float>(Panels::ValuesFor(kSize))),
                       parts = Buffer(std::vector<float>(Panels::ValuesFor(kSize)));
  panels.AddProducts({0, kSize}, {0, panels.count()}, x.data(), once.data());
  for (int64_t k = 0; k < kSize; k += 29) panels.AddProducts({k, k + 29}, {0, panels.count()}, x.data(), parts.data());
  EXPECT_TRUE(std::ranges::equal(once.span(), parts.span()));
}

// A panel of an upper triangle holds its rows down to its part of the diagonal.
TEST(PanelProducts, OfAnUpperTriangle) {
  for (const int64_t n : {1, 8, 20, 131}) {
    std::vector<float> m = RandomNormal(static_cast<size_t>(n * n), 7);
    for (int64_t i = 0; i < n; ++i) std::fill_n(&m[i * n], i, 0.0f);
    const Panels panels(Panels::Shape::kUpper, n, m.data());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i; j < n; ++j) ASSERT_EQ(panels.At(i, j), m[i * n + j]);
    }
    const AlignedBuffer<float> x = Buffer(RandomNormal(Panels::ValuesFor(n), 8));
    AlignedBuffer<float> sums = Buffer(std::vector<float>(Panels::ValuesFor(n))),
                         expected = Buffer(std::vector<float>(Panels::ValuesFor(n)));
    for (int64_t p = 0; p < panels.count(); ++p) {
      const int64_t end = std::min((p + 1) * kPanel, n);
      panels.AddProducts({0, end}, {p, p + 1}, x.data(), sums.data());
      AddPlainly(m, n, {0, end}, {p * kPanel, end}, x, expected);
    }
    EXPECT_TRUE(std::ranges::equal(sums.span(), expected.span())) << n;
  }
}

}  // namespace
}  // namespace tare::panel_products_test
