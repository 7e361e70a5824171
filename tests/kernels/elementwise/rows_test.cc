// SPDX-License-Identifier: Apache-2.0
// Each elementwise step against plain double loops, at the lengths where SIMD code breaks, at every misalignment, with
// a guard value after the row that must survive. A step that rounds once per operation and sums n values is off by at
// most about (n + c) half units of float: the tolerances below are that bound, with c for the exponential's own ulps.
#include "kernels/elementwise/rows.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "quant/base/float16.h"
#include "tests/support/each_target.h"
#include "tests/support/normal_floats.h"

namespace tare::rows_test {
namespace {

constexpr size_t kLengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257, 1000};
constexpr double kEps = 0x1p-24;  // half a unit in the last place, relative
constexpr float kGuard = 12345.0f;

// n random values at an address `shift` floats off a cache line, a guard after them.
struct Row {
  Row(size_t n, size_t shift, unsigned seed) : storage(n + shift + 1, kGuard), data(storage.data() + shift), size(n) {
    std::mt19937 random(seed);
    NormalFloats normal(0.0f, 3.0f);
    for (size_t i = 0; i < n; ++i) data[i] = normal(random);
  }
  bool GuardHolds() const { return storage.back() == kGuard; }
  std::vector<float> storage;
  float* data;
  size_t size;
};

template <typename Body>
void ForRows(Body body) {
  for (const size_t n : kLengths) {
    for (size_t shift = 0; shift < 3; ++shift) {
      SCOPED_TRACE(testing::Message() << "n " << n << " shift " << shift);
      body(n, shift);
    }
  }
}

TEST(RowsTest, RmsNorm) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1), w(n, shift, 2), y(n, shift, 3);
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += double{x.data[i]} * x.data[i];
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    RmsNorm(x.data, w.data, 1e-5f, n, y.data);
    for (size_t i = 0; i < n; ++i) {
      const double expected = x.data[i] * factor * w.data[i];
      ASSERT_NEAR(y.data[i], expected, (static_cast<double>(n) + 8) * kEps * std::abs(expected));
    }
    RmsNorm(x.data, nullptr, 1e-5f, n, y.data);
    ASSERT_NEAR(y.data[0], x.data[0] * factor, (static_cast<double>(n) + 8) * kEps * std::abs(x.data[0] * factor));
    ASSERT_TRUE(y.GuardHolds());
  });
}

// Every product and sum is rounded: |x - mean| is off by (n + 1) half units of the largest value.
TEST(RowsTest, LayerNorm) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1), w(n, shift, 2), b(n, shift, 4), y(n, shift, 3);
    double mean = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < n; ++i) mean += double{x.data[i]} / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      squares += (x.data[i] - mean) * (x.data[i] - mean);
      largest = std::max(largest, std::abs(double{x.data[i]}));
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    LayerNorm(x.data, w.data, b.data, 1e-5f, n, y.data);
    for (size_t i = 0; i < n; ++i) {
      const double scaled = (x.data[i] - mean) * factor * w.data[i];
      const double error =
          (static_cast<double>(n) + 8) * kEps * (largest * factor * std::abs(w.data[i]) * 2 + std::abs(scaled));
      ASSERT_NEAR(y.data[i], scaled + b.data[i], error + kEps * std::abs(b.data[i]));
    }
    ASSERT_TRUE(y.GuardHolds());
    LayerNorm(x.data, w.data, b.data, 1e-5f, n, x.data);  // in place
    ASSERT_TRUE(std::equal(x.data, x.data + n, y.data));
  });
}

TEST(RowsTest, LayerNormOfEqualValuesIsTheBias) {
  const std::vector<float> x(19, 4.0f), w(19, 3.0f), b(19, 0.25f);
  std::vector<float> y(19);
  LayerNorm(x.data(), w.data(), b.data(), 1e-5f, 19, y.data());
  EXPECT_EQ(y, b);
}

TEST(RowsTest, RotateHalf) {
  ForRows([](size_t half, size_t shift) {
    Row x(2 * half, shift, 1), c(half, shift, 2), s(half, shift, 3);
    const std::vector<float> before(x.data, x.data + 2 * half);
    RotateHalf(x.data, c.data, s.data, 2 * half);
    for (size_t i = 0; i < half; ++i) {
      const double a = before[i], b = before[i + half];
      const double size =
          std::abs(a * c.data[i]) + std::abs(b * s.data[i]) + std::abs(b * c.data[i]) + std::abs(a * s.data[i]);
      ASSERT_NEAR(x.data[i], a * c.data[i] - b * s.data[i], 4 * kEps * size);
      ASSERT_NEAR(x.data[i + half], b * c.data[i] + a * s.data[i], 4 * kEps * size);
    }
    ASSERT_TRUE(x.GuardHolds());
  });
}

TEST(RowsTest, RotateInterleavedIsRotateHalfOfOtherPairs) {
  ForRows([](size_t half, size_t shift) {
    Row x(2 * half, shift, 1), y(2 * half, shift, 1), c(half, shift, 2), s(half, shift, 3);
    for (size_t i = 0; i < half; ++i) y.data[2 * i] = x.data[i], y.data[2 * i + 1] = x.data[i + half];
    RotateHalf(x.data, c.data, s.data, 2 * half);
    RotateInterleaved(y.data, c.data, s.data, 2 * half);
    for (size_t i = 0; i < half; ++i) {
      ASSERT_NEAR(y.data[2 * i], x.data[i], 8 * kEps * 100);
      ASSERT_NEAR(y.data[2 * i + 1], x.data[i + half], 8 * kEps * 100);
    }
    ASSERT_TRUE(y.GuardHolds());
  });
}

// Sums of n powers and one division: the error of a term is relative to that term.
TEST(RowsTest, PolyNormGlu) {
  const float w[] = {0.4f, -0.3f, 0.7f};
  ForRows([&](size_t n, size_t shift) {
    Row gate(n, shift, 1), up(n, shift, 2);
    const std::vector<float> x(gate.data, gate.data + n);
    PolyNormGlu(gate.data, up.data, {.w = w, .bias = 0.2f, .eps = 1e-6f}, n);
    double norm[3];
    for (int power = 1; power <= 3; ++power) {
      double sum = 0;
      for (const float v : x) sum += std::pow(double{v}, 2 * power);
      norm[power - 1] = std::sqrt(sum / static_cast<double>(n) + 1e-6);
    }
    for (size_t i = 0; i < n; ++i) {
      double y = 0.2, size = 0.2;
      for (int power = 1; power <= 3; ++power) {
        const double term = w[3 - power] * std::pow(double{x[i]}, power) / norm[power - 1];
        y += term, size += std::abs(term);
      }
      ASSERT_NEAR(gate.data[i], y * up.data[i], (static_cast<double>(n) + 16) * kEps * size * std::abs(up.data[i]));
    }
    ASSERT_TRUE(gate.GuardHolds());
  });
}

TEST(RowsTest, SwiGlu) {
  ForRows([](size_t n, size_t shift) {
    Row gate(n, shift, 1), up(n, shift, 2);
    const std::vector<float> g(gate.data, gate.data + n);
    SwiGlu(gate.data, up.data, n);
    for (size_t i = 0; i < n; ++i) {
      const double expected = g[i] / (1 + std::exp(-double{g[i]})) * up.data[i];
      ASSERT_NEAR(gate.data[i], expected, 16 * kEps * std::abs(expected));
    }
    ASSERT_TRUE(gate.GuardHolds());
  });
}

// Where 1 + tanh cancels, the error is that of rounding 1, not of rounding the difference.
TEST(RowsTest, GeGluTanh) {
  ForRows([](size_t n, size_t shift) {
    Row gate(n, shift, 1), up(n, shift, 2);
    const std::vector<float> g(gate.data, gate.data + n);
    GeGluTanh(gate.data, up.data, n);
    for (size_t i = 0; i < n; ++i) {
      const double x = g[i], z = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      const double expected = x / (1 + std::exp(-2 * z)) * up.data[i];
      // The exponent's own rounding is an error of |z| half units in what it gives.
      ASSERT_NEAR(gate.data[i], expected, (16 + 8 * std::abs(z)) * kEps * std::abs(expected)) << x;
    }
    ASSERT_TRUE(gate.GuardHolds());
  });
}

TEST(RowsTest, GeluWithinItsPolynomial) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1);
    const std::vector<float> before(x.data, x.data + n);
    Gelu(x.data, n);
    for (size_t i = 0; i < n; ++i) {
      const double v = before[i], expected = v / 2 * std::erfc(-v / std::numbers::sqrt2);
      ASSERT_NEAR(x.data[i], expected, 1e-7 * std::abs(v) + 4 * kEps * std::abs(expected)) << v;
    }
    ASSERT_TRUE(x.GuardHolds());
  });
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float far[] = {0, -1e30f, 1e30f, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  Gelu(far, 5);
  EXPECT_EQ(far[0], 0.0f);
  EXPECT_NEAR(far[1], 0.0f, 1e-40);
  EXPECT_EQ(far[2], 1e30f);
  EXPECT_EQ(far[3], kInfinity);
  EXPECT_TRUE(std::isnan(far[4]));
}

TEST(RowsTest, QuickGelu) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1);
    const std::vector<float> before(x.data, x.data + n);
    QuickGelu(x.data, n);
    for (size_t i = 0; i < n; ++i) {
      const double v = before[i], expected = v / (1 + std::exp(-double{1.702f} * v));
      ASSERT_NEAR(x.data[i], expected, (16 + 2 * std::abs(v)) * kEps * std::abs(expected)) << v;
    }
    ASSERT_TRUE(x.GuardHolds());
  });
}

TEST(RowsTest, SigmoidIsBetween0And1) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1);
    const std::vector<float> before(x.data, x.data + n);
    Sigmoid(x.data, n);
    for (size_t i = 0; i < n; ++i) {
      const double expected = 1 / (1 + std::exp(-double{before[i]}));
      ASSERT_NEAR(x.data[i], expected, 16 * kEps * expected);
    }
    ASSERT_TRUE(x.GuardHolds());
  });
  float far[] = {-1e30f, 1e30f};
  Sigmoid(far, 2);
  EXPECT_EQ(far[0], 0.0f);
  EXPECT_EQ(far[1], 1.0f);
}

TEST(RowsTest, SoftCap) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1);
    const std::vector<float> before(x.data, x.data + n);
    SoftCap(x.data, 2.5f, n);
    for (size_t i = 0; i < n; ++i)
      ASSERT_NEAR(x.data[i], 2.5 * std::tanh(before[i] / 2.5), 16 * kEps * std::abs(before[i]));
    ASSERT_TRUE(x.GuardHolds());
  });
}

TEST(RowsTest, MultiplyBy) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 1), y(n, shift, 2);
    const std::vector<float> before(x.data, x.data + n);
    MultiplyBy(x.data, y.data, n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(x.data[i], before[i] * y.data[i]);
    ASSERT_TRUE(x.GuardHolds());
  });
}

TEST(RowsTest, SwiGluAtTheEnds) {
  float gate[] = {-200.0f, 200.0f, 0.0f}, up[] = {1.0f, 1.0f, 1.0f};
  SwiGlu(gate, up, 3);
  EXPECT_NEAR(gate[0], 0.0f, 1e-30f);
  EXPECT_EQ(gate[1], 200.0f);
  EXPECT_EQ(gate[2], 0.0f);
}

TEST(RowsTest, SoftmaxAndLogSumExp) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 4);
    double largest = -1e30, sum = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, double{x.data[i]});
    std::vector<double> expected;
    for (size_t i = 0; i < n; ++i) expected.push_back(std::exp(x.data[i] - largest));
    for (const double e : expected) sum += e;
    ASSERT_NEAR(LogSumExp(x.data, n), largest + std::log(sum), (static_cast<double>(n) + 16) * kEps);
    Softmax(x.data, n);
    // The argument of exp is off by half a unit of up to 24, the exponential by a few.
    for (size_t i = 0; i < n; ++i)
      ASSERT_NEAR(x.data[i], expected[i] / sum, (static_cast<double>(n) + 64) * kEps * expected[i] / sum);
    ASSERT_TRUE(x.GuardHolds());
  });
}

// In f32 the sum of so many equal terms is off by 5e-5 of itself.
TEST(RowsTest, LogSumExpOfAMillion) {
  for (const float value : {0.0f, -3.25f}) {
    std::vector<float> row(1'150'000, value);
    row[7] += 3.3f;  // so that the others' terms are no whole numbers
    const double expected = value + std::log(1'149'999 + std::exp(double{row[7]} - value));
    EXPECT_NEAR(LogSumExp(row.data(), row.size()), expected, 5e-7);
  }
}

TEST(RowsTest, SoftmaxOfFarValues) {
  float row[] = {-1e30f, 0.0f, -std::numeric_limits<float>::infinity(), 1e4f};
  Softmax(row, 4);
  EXPECT_EQ(row[0], 0.0f);
  EXPECT_EQ(row[1], 0.0f);
  EXPECT_EQ(row[2], 0.0f);
  EXPECT_EQ(row[3], 1.0f);
}

TEST(RowsTest, SumsAndProducts) {
  ForRows([](size_t n, size_t shift) {
    Row a(n, shift, 1), b(n, shift, 2), c(n, shift, 3);
    const std::vector<float> before(a.data, a.data + n);
    AddTo(a.data, b.data, n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(a.data[i], before[i] + b.data[i]);
    ScaleInto(b.data, 0.3f, n, c.data);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(c.data[i], b.data[i] * 0.3f);
    const std::vector<float> sums(a.data, a.data + n);
    SubtractScaled(a.data, b.data, 0.7f, n);
    for (size_t i = 0; i < n; ++i)
      ASSERT_NEAR(a.data[i], sums[i] - double{0.7f} * b.data[i], 2 * kEps * (std::abs(sums[i]) + std::abs(b.data[i])));
    ASSERT_TRUE(a.GuardHolds() && c.GuardHolds());
  });
}

TEST(RowsTest, AbsMax) {
  ForRows([](size_t n, size_t shift) {
    Row x(n, shift, 5);
    float expected = 0;
    for (size_t i = 0; i < n; ++i) expected = std::max(expected, std::abs(x.data[i]));
    ASSERT_EQ(AbsMax(x.data, n), expected);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Row y = x;
      y.data = y.storage.data() + shift;
      y.data[n / 2] = bad;
      ASSERT_EQ(AbsMax(y.data, n), std::numeric_limits<float>::infinity());
    }
  });
  EXPECT_EQ(AbsMax(nullptr, 0), 0.0f);
}

// Code for code: the scalar definition of quant/format/round.h, with ties and values beyond the range among the inputs.
TEST(RowsTest, ToBf16IsTheScalarConversion) {
  std::mt19937 random(7);
  std::vector<float> x(4099);
  for (float& v : x)
    v = std::bit_cast<float>(static_cast<uint32_t>(random()));  // NaN, infinities and subnormals among them
  std::vector<uint16_t> y(x.size() + 1, 0xabcd);
  ToBf16(x.data(), x.size(), y.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], Bf16FromFloat(x[i])) << std::bit_cast<uint32_t>(x[i]);
  EXPECT_EQ(y.back(), 0xabcd);
}

// All finite f16 values, subnormals among them, on every instruction set; and a tail.
TEST(RowsTest, FromF16IsTheScalarConversion) {
  std::vector<uint16_t> x;
  for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    for (const uint32_t sign : {0u, 0x8000u}) x.push_back(static_cast<uint16_t>(sign | bits));
  }
  OnEachTarget(kAllTargets, [&] {
    std::vector<float> y(x.size() + 1, 99);
    FromF16(x.data(), x.size(), y.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(FloatFromF16(x[i])));
    EXPECT_EQ(y.back(), 99);
  });
}

// To the bit, with zero points, zeros of both signs, scales of both, and a last group that is short.
TEST(RowsTest, NibblesAreTheirValuesByTheScalesOfTheirGroups) {
  std::mt19937 random(9);
  NormalFloats normal(0.0f, 3.0f);
  std::array<float, 16> values{0.0f, -0.0f};
  for (size_t code = 2; code < values.size(); ++code) values[code] = normal(random);
  OnEachTarget(kAllTargets, [&] {
    for (const size_t n : {16, 32, 48, 144, 2880}) {
      for (const size_t columns : {16, 32, 80, 4096}) {
        std::vector<std::byte> codes(n / 2 + 1);  // from the second on: they need no alignment
        for (std::byte& two : codes) two = static_cast<std::byte>(random());
        std::vector<float> zeros(n / 16), scales(n / 16), y(n + 2, kGuard);
        for (size_t g = 0; g < zeros.size(); ++g)
          zeros[g] = g % 2 == 0 ? 0.0f : normal(random), scales[g] = normal(random);
        FromNibbles({codes.data() + 1, values.data(), zeros.data(), scales.data(), static_cast<int64_t>(columns)}, n,
                    y.data() + 1);
        for (size_t i = 0; i < n; ++i) {
          const auto code = (std::to_integer<size_t>(codes[1 + i / 2]) >> (i % 2 * 4)) & 15;
          const float less = values[code] - zeros[i / columns];
          ASSERT_EQ(std::bit_cast<uint32_t>(y[1 + i]), std::bit_cast<uint32_t>(less * scales[i / columns]))
              << n << " " << columns << " " << i;
        }
        ASSERT_TRUE(y.front() == kGuard && y.back() == kGuard);
      }
    }
  });
}

}  // namespace
}  // namespace tare::rows_test
