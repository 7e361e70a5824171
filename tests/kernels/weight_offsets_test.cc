// SPDX-License-Identifier: Apache-2.0
// Weights with a zero point, a minimum or the code -8 on the integer kernels: sums bit for bit, results against double
// within a derived bound, and the same bits on any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/linear/one_token.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/support/call.h"
#include "tests/support/quantize_group.h"
#include "tests/support/random_quantized.h"
#include "tests/support/ranged_integers.h"

namespace tare::weight_offsets_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  int64_t rows, out, in, group;
};
constexpr Case kCases[] = {{1, 1, 1, 1},     {3, 65, 17, 17},   {16, 64, 64, 32},  {17, 7, 128, 64},
                           {65, 63, 48, 16}, {5, 70, 384, 128}, {2, 130, 300, 300}};

std::vector<float> Project(const std::vector<float>& x, int64_t rows, const PackedMatrix& packed, const float* bias) {
  std::vector<float> y(static_cast<size_t>(rows * packed.out()));
  const QuantizedProjection projection{&packed, bias, y.data()};
  QuantizedLinear().Project(x.data(), rows, {Format::kInt8, {}}, {&projection, 1});
  return y;
}

// The kernel adds code * scale and this offset for a value w of the group: |code scale| <= |w| + |offset|.
double OffsetOf(const QuantizedMatrix& w, int64_t n, int64_t g) {
  const double middle = std::exp2(Info(w.format).bits - 1), scale = w.ScaleOf(n, g);
  return HasOffset(w.format) ? (middle - double{w.ZeroOf(n, g)}) * scale + double{w.MinimumOf(n, g)} : 0.0;
}

// Per group: the sum becomes f32, the offset was rounded, and two terms are multiplied and added; the total is
// multiplied and biased: 2 groups + 4 roundings.
TEST(WeightOffsets, RowsAreTheReferencesWithinRounding) {
  for (const Case& c : kCases) {
    for (const Format& format : RangedIntegers()) {
      const QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 8);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(c.rows * c.in), 9);
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 10);
      const LinearReference reference = ReferenceLinear(x.data(), c.rows, Format::kInt8, w.view(), bias.data());
      const std::vector<float> y = Project(x, c.rows, PackedMatrix(w.view()), bias.data());
      const int64_t groups = c.in / c.group;
      std::vector<int16_t> codes(static_cast<size_t>(c.in));
      std::vector<float> values(static_cast<size_t>(c.in));
      for (int64_t n = 0; n < c.out; ++n) {
        DequantizeRow(w.view(), n, values.data());
        for (int64_t r = 0; r < c.rows; ++r) {
          const double x_scale = QuantizeGroup({x.data() + r * c.in, static_cast<size_t>(c.in)}, Format::kInt8, codes);
          double size = std::abs(double{bias[n]}), y_plain = bias[n];
          for (int64_t i = 0; i < c.in; ++i) {
            const double offset = std::abs(OffsetOf(w.view(), n, i / c.group));
            size += std::abs(codes[i] * x_scale) * (std::abs(double{values[i]}) + 2 * offset);
            y_plain += codes[i] * x_scale * double{values[i]};
          }
          const double bound = static_cast<double>(2 * groups + 4) * 0x1p-24 * size;
          ASSERT_NEAR(y[r * c.out + n], reference.y[r * c.out + n], bound)
              << Name(format) << " " << c.rows << " x " << c.out << " x " << c.in;
          // The simulated layer's weights, themselves rounded to f32 twice.
          ASSERT_NEAR(y[r * c.out + n], y_plain, bound + 2 * 0x1p-24 * size) << Name(format);
        }
      }
    }
  }
}

// x is its own code, scales are 1 and minima whole: nothing is rounded, and y is the reference's sum, bit for bit.
TEST(WeightOffsets, SumsAreExact) {
  for (const Format& format : RangedIntegers()) {
    QuantizedMatrixBuffer w = RandomQuantized(format, 70, 96, 32, 6);
    for (int64_t n = 0; n < 70; ++n) {
      for (int64_t g = 0; g < 3; ++g) {
        w.Scales(n)[g] = 1;
        if (w.view().minima != nullptr) w.Minima(n)[g] = static_cast<float>(n - 40 + g);
      }
    }
    std::vector<float> x(5 * 96);
    std::mt19937 random(5);
    std::uniform_int_distribution<int> code(-127, 127);
    for (float& v : x) v = static_cast<float>(code(random));
    for (int r = 0; r < 5; ++r) x[r * 97] = r % 2 == 0 ? 127.0f : -127.0f;
    const LinearReference reference = ReferenceLinear(x.data(), 5, Format::kInt8, w.view(), nullptr);
    const std::vector<float> y = Project(x, 5, PackedMatrix(w.view()), nullptr);
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], reference.y[i]) << Name(format) << " " << i;
  }
}

// All at the ends: -128 by 127 over 4096 inputs, 128 added to the inputs.
TEST(WeightOffsets, TheLowestCodeDoesNotSaturate) {
  constexpr int64_t kIn = 4096;
  QuantizedMatrixBuffer w(WithRange(Format::kInt8, CodeRange::kFull), 64, kIn, kIn);
  for (int64_t n = 0; n < 64; ++n) {
    std::fill_n(w.Codes(n), kIn, uint8_t{128});
    w.Scales(n)[0] = 1;
  }
  const std::vector<float> y = Project(std::vector<float>(kIn, 127.0f), 1, PackedMatrix(w.view()), nullptr);
  EXPECT_THAT(y, testing::Each(-128.0f * 127 * kIn));
  EXPECT_LE(255ll * 128 * kLargestGroup, std::numeric_limits<int32_t>::max());
}

// As one_token_test.cc; a block rounds its term of the offset, too: 2 blocks + 8 roundings.
TEST(WeightOffsets, OneTokenAgainstDouble) {
  for (const Case& c : kCases) {
    for (const Format& format : RangedIntegers()) {
      const QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 1);
      const PackedMatrix packed(w.view());
      const int64_t block = OneToken::BlockOf(packed);
      std::vector<float> x = RandomNormal(static_cast<size_t>(c.in), 2);
      x[0] = 1000.0f;
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 3);
      std::vector<float> y(static_cast<size_t>(c.out)), row(static_cast<size_t>(c.in));
      OneToken token(c.in, block);
      token.Load(x.data());
      token.Project(packed, bias.data(), y.data());
      for (int64_t n = 0; n < c.out; ++n) {
        DequantizeRow(w.view(), n, row.data());
        double sum = bias[n], size = std::abs(sum), bound = 0;
        for (int64_t i = 0; i < c.in; ++i) {
          const int64_t begin = i / block * block;
          const auto count = static_cast<size_t>(std::min(block, c.in - begin));
          const double unit = double{AbsMax({x.data() + begin, count})} / OneToken::kLargestCode;
          const double terms = std::abs(double{row[i]}) + 2 * std::abs(OffsetOf(w.view(), n, i / c.group));
          bound += std::abs(double{row[i]}) * unit;
          sum += double{row[i]} * x[i];
          size += terms * (std::abs(double{x[i]}) + unit);
        }
        const double blocks = std::ceil(static_cast<double>(c.in) / static_cast<double>(block));
        ASSERT_NEAR(y[n], sum, 0.502 * bound + (2 * blocks + 8) * 0x1p-24 * size)
            << Name(format) << " " << c.out << " x " << c.in << " at " << n;
      }
    }
  }
}

// Projections with other groups, and without offsets, in one call; any number of threads.
TEST(WeightOffsets, ProjectionsOfAnyKindShareACall) {
  const PackedMatrix a(RandomQuantized(WithRange(Format::kInt4, CodeRange::kZero), 70, 96, 32, 1).view()),
      b(RandomQuantized(WithRange(Format::kInt4, CodeRange::kMin), 20, 96, 96, 2).view()),
      c(RandomQuantized(Format::kInt6, 65, 96, 48, 3).view());
  const std::vector<float> x = RandomNormal(19 * 96, 4);
  std::vector<std::vector<float>> alone;
  for (const PackedMatrix* w : {&a, &b, &c}) alone.push_back(Project(x, 19, *w, nullptr));
  for (const int threads : {1, 2, 7}) {
    SetThreads(threads);
    std::vector<std::vector<float>> y = alone;
    for (std::vector<float>& one : y) std::ranges::fill(one, -7.0f);
    const QuantizedProjection projections[] = {
        {&a, nullptr, y[0].data()}, {&b, nullptr, y[1].data()}, {&c, nullptr, y[2].data()}};
    QuantizedLinear linear;
    for (int again = 0; again < 2; ++again) linear.Project(x.data(), 19, {Format::kInt8, {}}, projections);
    EXPECT_EQ(y, alone) << threads;
  }
  SetThreads(0);
}

TEST(WeightOffsets, BitsAWeightAndWhatIsRefused) {
  const auto bytes = [](CodeRange range) {
    return PackedMatrix(RandomQuantized(WithRange(Format::kInt4, range), 64, 1024, 64, 1).view()).Bytes();
  };
  constexpr size_t kCodes = 64 * 1024 / 2, kScales = 64 * 16 * 4;
  EXPECT_EQ(bytes(CodeRange::kFull), kCodes + kScales);
  EXPECT_EQ(bytes(CodeRange::kZero), kCodes + 2 * kScales);
  QuantizedMatrixBuffer bad = RandomQuantized(WithRange(Format::kInt4, CodeRange::kZero), 3, 64, 32, 1);
  bad.Zeros(1)[1] = 16;
  EXPECT_THAT(Call([&] { PackedMatrix packed(bad.view()); }),
              ThrowsMessage<Error>(HasSubstr("packed weights: row 1, group 1: got zero point 16")));
}

}  // namespace
}  // namespace tare::weight_offsets_test
