// SPDX-License-Identifier: Apache-2.0
// FakeQuantize of rows.h against quant/format's rounding, at the lengths where SIMD code breaks, with a guard after the
// row that must survive.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

#include "kernels/elementwise/rows.h"
#include "quant/format/pack.h"
#include "tests/support/normal_floats.h"

namespace tare::fake_quantize_test {
namespace {

constexpr float kGuard = 12345.0f;

// Values beyond what the scale holds among them, and halves of its codes.
TEST(FakeQuantize, IsTheRoundingOfRoundH) {
  for (const Format& format : SpelledFormats()) {
    if (!HasCodes(format)) continue;
    const Scale scale = ScaleFor(2.0f, format);
    for (const size_t n : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 257}) {
      std::mt19937 random(6);
      NormalFloats normal(0.0f, 3.0f);
      std::vector<float> x(n + 1, kGuard);
      for (size_t i = 0; i < n; ++i)
        x[i] = i % 3 == 0 ? (static_cast<float>(i % 13) - 6.5f) / (IsInteger(format) ? 1 : 4) * scale.scale
                          : normal(random);
      const std::vector<float> before = x;
      FakeQuantize(x.data(), n, scale, format);
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(x[i], Rounded(before[i], scale.inv, format) * scale.scale) << Name(format) << ' ' << before[i];
      ASSERT_EQ(x[n], kGuard) << Name(format) << ' ' << n;
    }
  }
}

// A negative inverse asks for sevenths: halves between two of them, and the floats beside them.
TEST(FakeQuantize, TakesTheSeventhsOfIf4) {
  const Format if4 = Format::kIf4;
  const Scale scale = ScaleFor(-3.0f, if4, 3.0f);
  ASSERT_LT(scale.inv, 0);
  std::vector<float> x{-9, 9, 0};
  for (int i = -7; i < 7; ++i) {
    const float half = (static_cast<float>(i) + 0.5f) * 6 / 7 * scale.scale;
    for (const float value : {std::nextafter(half, -1e6f), half, std::nextafter(half, 1e6f)}) x.push_back(value);
  }
  std::vector<float> y = x;
  FakeQuantize(y.data(), y.size(), scale, if4);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], Rounded(x[i], scale.inv, if4) * scale.scale) << x[i];
    const double sevenths = std::clamp(double{x[i]} / double{scale.scale} * 7 / 6, -7.0, 7.0);
    EXPECT_NEAR(double{y[i]} / double{scale.scale} * 7 / 6, sevenths, 0.5 + 0x1p-20) << x[i];
  }
}

// The halves between two values of each grid, where two roundings may disagree, and the floats beside them.
TEST(FakeQuantize, TurnsBetweenValuesWhereTheGridDoes) {
  std::vector<Format> grids = SpelledFormats();
  std::erase_if(grids, [](const Format& format) { return !HasCodes(format) || IsInteger(format); });
  for (const int n : {2, 16, 17, 64, 65, 255, 256}) {  // few and many levels, steps of any size
    std::vector<float> list{-3.0f};
    while (std::ssize(list) < n) list.push_back(list.back() + 0.01f + 0.1f * static_cast<float>(list.size() % 7));
    grids.emplace_back(Levels(list));
  }
  for (const Format& format : grids) {
    std::vector<float> values;
    std::ranges::copy_if(StoredValues(format), std::back_inserter(values), [](float x) { return !std::isnan(x); });
    std::ranges::sort(values);
    std::vector<float> x{2 * values.front(), 2 * values.back()};
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const auto half = static_cast<float>((double{values[i]} + double{values[i + 1]}) / 2);
      for (const float value : {std::nextafter(half, -1e6f), half, std::nextafter(half, 1e6f)}) x.push_back(value);
    }
    std::vector<float> y = x;
    FakeQuantize(y.data(), y.size(), Scale{1.0f, 1.0f}, format);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], Nearest(x[i], Info(format).grid)) << Name(format) << ' ' << x[i];
  }
}

}  // namespace
}  // namespace tare::fake_quantize_test
