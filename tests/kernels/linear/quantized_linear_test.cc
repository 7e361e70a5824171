// SPDX-License-Identifier: Apache-2.0
// Integer linear layers against the scalar reference: sums bit for bit, then results within f32's rounding.
#include "kernels/linear/quantized_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/quantize_group.h"
#include "tests/support/random_quantized.h"
#include "tests/support/wrong_linear.h"

namespace tare::quantized_linear_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  int64_t rows, out, in, group;
};
constexpr Case kCases[] = {{1, 1, 1, 1},        {3, 65, 17, 17},    {16, 64, 64, 32},   {17, 7, 128, 64},
                           {64, 130, 256, 256}, {65, 63, 300, 300}, {79, 64, 384, 128}, {513, 70, 48, 16}};

std::vector<float> Project(const std::vector<float>& x, int64_t rows, Format activation, const QuantizedMatrix& weight,
                           const float* bias) {
  const PackedMatrix packed(weight);
  std::vector<float> y(static_cast<size_t>(rows * weight.out + 1), -7.0f);
  const QuantizedProjection projection{&packed, bias, y.data()};
  QuantizedLinear().Project(x.data(), rows, {activation, {}}, {&projection, 1});
  EXPECT_EQ(y.back(), -7.0f);  // nothing behind the last row
  y.pop_back();
  return y;
}

// x is its own code (a row's largest magnitude is the format's largest code), and one group's scale is 1 while the
// others are 0: y is the group's sum, as f32.
TEST(QuantizedLinear, SumsAreTheReferencesBitForBit) {
  for (const Case& c : kCases) {
    for (const Format& format : kWeightFormats) {
      for (const Format& activation : kSignedFormats) {
        std::mt19937 random(5);
        const int largest = Info(activation).max_code;
        std::uniform_int_distribution<int> code(-largest, largest);
        std::vector<float> x(static_cast<size_t>(c.rows * c.in));
        for (float& v : x) v = static_cast<float>(code(random));
        for (int64_t r = 0; r < c.rows; ++r)
          x[r * c.in + r % c.in] = static_cast<float>(r % 2 == 0 ? largest : -largest);
        QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 6);
        const int64_t groups = c.in / c.group;
        const LinearReference reference = ReferenceLinear(x.data(), c.rows, activation, w.view(), nullptr);
        for (int64_t g = 0; g < groups; ++g) {
          for (int64_t n = 0; n < c.out; ++n) {
            for (int64_t i = 0; i < groups; ++i) w.Scales(n)[i] = i == g ? 1.0f : 0.0f;
          }
          const std::vector<float> y = Project(x, c.rows, activation, w.view(), nullptr);
          for (size_t i = 0; i < y.size(); ++i) {
            ASSERT_EQ(y[i], static_cast<float>(reference.sums[i * groups + g]))
                << Name(format) << " " << Name(activation) << " " << c.rows << " x " << c.out << " x " << c.in
                << " group " << g << " at " << i;
          }
        }
      }
    }
  }
}

// The extremes: all codes of one sign at their largest, 128 added, over 4096 inputs.
TEST(QuantizedLinear, LargestSumsDoNotSaturate) {
  constexpr int64_t kIn = 4096;
  for (const int sign : {1, -1}) {
    QuantizedMatrixBuffer w(Format::kInt8, 64, kIn, kIn);
    for (int64_t n = 0; n < 64; ++n) {
      std::fill_n(w.Codes(n), kIn, static_cast<uint8_t>(127 * sign));
      w.Scales(n)[0] = 1;
    }
    const std::vector<float> y = Project(std::vector<float>(kIn, 127.0f), 1, Format::kInt8, w.view(), nullptr);
    EXPECT_THAT(y, testing::Each(static_cast<float>(sign * 127 * 127 * kIn)));
  }
}

TEST(QuantizedLinear, ResultsAreTheReferencesWithinRounding) {
  for (const Case& c : kCases) {
    for (const Format& format : kWeightFormats) {
      const QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 8);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(c.rows * c.in), 9);
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 10);
      const std::vector<float> y = Project(x, c.rows, Format::kInt8, w.view(), bias.data());
      for (int64_t r = 0; r < c.rows; ++r)
        ASSERT_EQ(WrongLinear(x.data() + r * c.in, w.view(), bias.data(), y.data() + r * c.out), "") << Name(format);
    }
  }
}

// Against what the codes stand for, which knows of no step: in blocks, by token and within the same rounding.
TEST(QuantizedLinear, GridsAreIntegersTimesAStep) {
  constexpr Case kBlocks[] = {{1, 1, 32, 32}, {17, 66, 96, 32}, {65, 7, 160, 32}};
  for (const char* name : {"mxfp4", "mxfp6e2m3:rceil", "mxint8", "nvfp4", "if4"}) {
    const Format format = *ParseFormat(name);
    for (const Case& c : kBlocks) {
      const QuantizedMatrixBuffer w = RoundedNormal(format, c.out, c.in, Info(format).block, 20);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(c.rows * c.in), 21);
      const LinearReference reference = ReferenceLinear(x.data(), c.rows, Format::kInt8, w.view(), nullptr);
      const std::vector<float> y = Project(x, c.rows, Format::kInt8, w.view(), nullptr);
      std::vector<float> row(static_cast<size_t>(c.in));
      std::vector<int16_t> codes(row.size());
      for (size_t i = 0; i < y.size(); ++i) {
        const auto r = static_cast<int64_t>(i) / c.out, n = static_cast<int64_t>(i) % c.out;
        DequantizeRow(w.view(), n, row.data());
        const double x_scale = QuantizeGroup({x.data() + r * c.in, row.size()}, Format::kInt8, codes);
        double sum = 0, size = 0;
        for (size_t j = 0; j < row.size(); ++j) {
          sum += codes[j] * x_scale * double{row[j]};
          size += std::abs(codes[j] * x_scale * double{row[j]});
        }
        const double groups = static_cast<double>(w.view().Groups());
        ASSERT_NEAR(reference.y[i], sum, 0x1p-24 * size) << name;  // what a dequantized weight is rounded by
        ASSERT_NEAR(y[i], sum, (groups + 5) * 0x1p-24 * size) << name << ' ' << c.rows << " x " << c.out << " at " << i;
      }
    }
  }
  EXPECT_THAT(Call([] { PackedMatrix packed(RoundedNormal(Format::kNf4, 2, 64, 64, 1).view()); }),
              ThrowsMessage<Error>(HasSubstr("got nf4, expected values that are integers of 8 bits times a step")));
  EXPECT_THAT(Call([] { PackedMatrix packed(RoundedNormal(Format::kMxFp4, 2, 48, 32, 1).view()); }),
              ThrowsMessage<Error>(HasSubstr("got blocks of 32 in rows of 48, expected a divisor")));
}

constexpr const char* kInBlocks[] = {"mxfp4:rceil", "mxfp6e2m3", "mxint8", "nvfp4", "nvfp4:4over6", "nvint4", "if4"};

// Against what a simulated plan multiplies: rounded inputs and weights in f32, each off by 2^-24 of itself, or by three
// with IF4's sevenths. Blocks of the inputs are shorter than groups of weights, longer, or neither, and the last one
// may be short. What an offset adds is at most twice a group's largest magnitude.
TEST(QuantizedLinear, InputsInBlocksAreIntegersTimesSteps) {
  constexpr Case kShapes[] = {{1, 3, 48, 48}, {17, 66, 96, 48}, {65, 7, 160, 32}, {3, 65, 41, 41}, {70, 5, 64, 16}};
  const Format zero = WithRange(Format::kInt4, CodeRange::kZero), least = WithRange(Format::kInt8, CodeRange::kMin);
  for (const Case& c : kShapes) {
    std::vector<QuantizedMatrixBuffer> weights;
    for (const Format& format : {Format(Format::kInt8), Format(Format::kInt4), Format(Format::kInt6), zero, least})
      weights.push_back(RoundedNormal(format, c.out, c.in, c.group, 20));
    for (const Format& format : {Format(Format::kMxFp4), Format(Format::kNvFp4), Format(Format::kIf4)})
      if (c.in % 32 == 0) weights.push_back(RoundedNormal(format, c.out, c.in, Info(format).block, 20));
    const std::vector<float> x = RandomNormal(static_cast<size_t>(c.rows * c.in), 21);
    for (const char* name : kInBlocks) {
      const Format format = *ParseFormat(name);
      const float of_tensor = AbsMax(x);
      std::vector<float> rounded = x;
      for (int64_t r = 0; r < c.rows; ++r) {
        for (int64_t i = 0; i < c.in; i += Info(format).block) {
          const std::span values(&rounded[static_cast<size_t>(r * c.in + i)],
                                 static_cast<size_t>(std::min<int64_t>(Info(format).block, c.in - i)));
          const float end = BlockEnd(values.data(), std::ssize(values), format, AbsMax(values), of_tensor);
          FakeQuantize(values.data(), values.size(), ScaleFor(end, format, of_tensor), format);
        }
      }
      for (const QuantizedMatrixBuffer& buffer : weights) {
        const QuantizedMatrix& w = buffer.view();
        const LinearReference reference = ReferenceLinear(x.data(), c.rows, format, w, nullptr, of_tensor);
        const std::vector<float> y = Project(x, c.rows, format, w, nullptr);
        std::vector<float> row(static_cast<size_t>(c.in));
        for (size_t at = 0; at < y.size(); ++at) {
          const auto r = static_cast<int64_t>(at) / c.out, n = static_cast<int64_t>(at) % c.out;
          DequantizeRow(w, n, row.data());
          double sum = 0, size = 0;
          for (int64_t i = 0; i < c.in; ++i) {
            const double one = double{rounded[static_cast<size_t>(r * c.in + i)]}, weight = row[static_cast<size_t>(i)];
            const int64_t g = i / w.group;
            const auto group = std::span(row).subspan(g * w.group, w.GroupEnd(g) - g * w.group);
            sum += one * weight;
            size += std::abs(one) * (std::abs(weight) + (HasOffset(w.format) ? 4 * AbsMax(group) : 0));
          }
          const double parts = static_cast<double>(reference.sums.size() / y.size());
          ASSERT_NEAR(reference.y[at], sum, 6 * 0x1p-24 * size) << name << " x " << Name(w.format);
          ASSERT_NEAR(y[at], reference.y[at], (2 * parts + 8) * 0x1p-24 * size)
              << name << " x " << Name(w.format) << ": " << c.rows << " x " << c.out << " x " << c.in << " at " << at;
        }
      }
    }
  }
}

// x is its own integers, in blocks whose largest has the step 1; one group's scale is 1 and the others are 0.
TEST(QuantizedLinear, SumsOfBlocksAreTheReferencesBitForBit) {
  constexpr Case kShapes[] = {{1, 3, 64, 64}, {17, 66, 96, 32}, {70, 7, 64, 16}};
  for (const Case& c : kShapes) {
    for (const char* name : {"mxfp4", "nvfp4:t1"}) {
      const Format format = *ParseFormat(name);
      std::mt19937 random(7);
      std::uniform_int_distribution<int> value(-3, 3);
      std::vector<float> x(static_cast<size_t>(c.rows * c.in));
      for (float& v : x) v = static_cast<float>(value(random));
      for (size_t i = 0; i < x.size(); i += 16) x[i] = Info(format).grid.largest;  // the scale is 1
      QuantizedMatrixBuffer w = RandomQuantized(Format::kInt8, c.out, c.in, c.group, 6);
      const int64_t groups = c.in / c.group;
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t n = 0; n < c.out; ++n) {
          for (int64_t i = 0; i < groups; ++i) w.Scales(n)[i] = i == g ? 1.0f : 0.0f;
        }
        const LinearReference reference = ReferenceLinear(x.data(), c.rows, format, w.view(), nullptr);
        const std::vector<float> y = Project(x, c.rows, format, w.view(), nullptr);
        for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], reference.y[i]) << name << " group " << g << " at " << i;
      }
    }
  }
}

// Two rows of the same values have the f32 per tensor of one of them.
TEST(QuantizedLinear, ARowOfBlocksAloneHasItsBitsAmongOthers) {
  for (const Case& c : {Case{2, 70, 64, 64}, Case{2, 65, 96, 48}, Case{2, 3, 41, 41}}) {
    for (const Format& format : kWeightFormats) {
      const QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 16);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(c.in), 17);
      std::vector<float> twice = x;
      twice.insert(twice.end(), x.begin(), x.end());
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 18);
      for (const char* name : kInBlocks) {
        const std::vector<float> one = Project(x, 1, *ParseFormat(name), w.view(), bias.data()),
                                 two = Project(twice, 2, *ParseFormat(name), w.view(), bias.data());
        EXPECT_THAT(std::span(two).first(one.size()), testing::ElementsAreArray(one)) << Name(format) << ' ' << name;
        EXPECT_THAT(std::span(two).last(one.size()), testing::ElementsAreArray(one)) << Name(format) << ' ' << name;
      }
    }
  }
}

TEST(QuantizedLinear, SameBitsOnAnyNumberOfThreads) {
  const Case c{700, 330, 192, 64};
  const QuantizedMatrixBuffer w = RandomQuantized(Format::kInt4, c.out, c.in, c.group, 11);
  const std::vector<float> x = RandomNormal(static_cast<size_t>(c.rows * c.in), 12);
  std::vector<float> first;
  for (const int threads : {1, 2, 7}) {
    SetThreads(threads);
    const std::vector<float> y = Project(x, c.rows, Format::kInt8, w.view(), nullptr);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0) << threads << " threads";
  }
  SetThreads(0);
}

// Alone it goes another way, and with others through a tile.
TEST(QuantizedLinear, ARowAloneHasItsBitsAmongOthers) {
  for (const Case& c : kCases) {
    for (const Format& format : kWeightFormats) {
      const QuantizedMatrixBuffer w = RandomQuantized(format, c.out, c.in, c.group, 16);
      const std::vector<float> x = RandomNormal(static_cast<size_t>(2 * c.in), 17);
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 18);
      for (const Format& activation : kSignedFormats) {
        std::vector<float> both = Project(x, 2, activation, w.view(), bias.data());
        both.resize(static_cast<size_t>(c.out));
        EXPECT_EQ(Project(x, 1, activation, w.view(), bias.data()), both) << Name(format) << " " << Name(activation);
      }
    }
  }
}

TEST(QuantizedLinear, SeveralProjectionsOfOneInputAndAgain) {
  const QuantizedMatrixBuffer a = RandomQuantized(Format::kInt8, 70, 96, 96, 13);
  const QuantizedMatrixBuffer b = RandomQuantized(Format::kInt6, 20, 96, 32, 14);
  const PackedMatrix wa(a.view()), wb(b.view());
  QuantizedLinear linear;
  for (const int64_t rows : {100, 3, 1, 64}) {
    const std::vector<float> x = RandomNormal(static_cast<size_t>(rows * 96), static_cast<unsigned>(rows));
    std::vector<float> ya(static_cast<size_t>(rows * 70)), yb(static_cast<size_t>(rows * 20));
    const QuantizedProjection both[] = {{&wa, nullptr, ya.data()}, {&wb, nullptr, yb.data()}};
    linear.Project(x.data(), rows, {Format::kInt8, {}}, both);
    EXPECT_EQ(ya, Project(x, rows, Format::kInt8, a.view(), nullptr));
    EXPECT_EQ(yb, Project(x, rows, Format::kInt8, b.view(), nullptr));
  }
}

TEST(QuantizedLinear, BadInputIsNamed) {
  const QuantizedMatrixBuffer w = RandomQuantized(Format::kInt8, 4, 32, 32, 15);
  std::vector<float> x(20 * 32, 1.0f);
  EXPECT_THAT(Call([&] { Project(x, 20, Format::kF32, w.view(), nullptr); }), ThrowsMessage<Error>(HasSubstr("f32")));
  EXPECT_THAT(Call([&] { Project(x, 20, Format::kMxFp8E4M3, w.view(), nullptr); }),
              ThrowsMessage<Error>(HasSubstr("got mxfp8e4m3 activations, expected int8, int6, int4 or blocks")));
  const PackedMatrix packed(w.view());
  std::vector<float> y(20 * 4);
  const QuantizedProjection projection{&packed, nullptr, y.data()};
  EXPECT_THAT(Call([&] { QuantizedLinear().Project(x.data(), 20, {Format::kMxFp4, 1.0f}, {&projection, 1}); }),
              ThrowsMessage<Error>(HasSubstr("got a clip of mxfp4, expected none")));
  x[17 * 32 + 31] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Call([&] { Project(x, 20, Format::kNvFp4, w.view(), nullptr); }),
              ThrowsMessage<Error>(HasSubstr("row 17")));
  EXPECT_THAT(Call([&] { Project(x, 20, Format::kInt8, w.view(), nullptr); }),
              ThrowsMessage<Error>(HasSubstr("row 17")));
}

// By hand: x 127 1 -2 3 has scale 1 and itself as codes.
TEST(LinearReference, ByHand) {
  QuantizedMatrixBuffer w(Format::kInt8, 1, 4, 2);
  const std::vector<int8_t> codes = {1, -2, 3, 4};
  Pack<int8_t>(Format::kInt8, codes, {w.Codes(0), 4});
  w.Scales(0)[0] = 0.5f;
  w.Scales(0)[1] = 0.25f;
  const float x[] = {127, 1, -2, 3}, bias[] = {10};
  const LinearReference result = ReferenceLinear(x, 1, Format::kInt8, w.view(), bias);
  EXPECT_THAT(result.sums, testing::ElementsAre(125, 6));
  EXPECT_THAT(result.y, testing::ElementsAre(62.5 + 1.5 + 10));
}

}  // namespace
}  // namespace tare::quantized_linear_test
