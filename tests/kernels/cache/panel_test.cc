// SPDX-License-Identifier: Apache-2.0
// The layouts that panel.h draws, bit by bit, and every code at every place.
//
// Codes, scales and minima against the one rounding rule.
#include "kernels/cache/panel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "quant/base/aligned.h"
#include "quant/base/float16.h"
#include "quant/format/format.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/support/panel_input.h"
#include "tests/support/random_quantized.h"
#include "tests/support/ranged_integers.h"

namespace tare::panel_test {
namespace {

// The bytes of a panel of 16 inputs that are not those of zeros when the code of input r of lane l is written.
struct Changed {
  int64_t byte;
  int bits;
};
std::vector<Changed> ChangedBy(Format format, int r, int lane, float code) {
  std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(format, 16)), std::byte{0});
  WritePanel(format, panel.data(), {r, lane, 0, 0}, &code, 1);
  std::vector<Changed> changed;
  for (size_t i = 0; i < panel.size(); ++i)
    if (panel[i] != std::byte{0}) changed.push_back({static_cast<int64_t>(i), std::to_integer<int>(panel[i])});
  return changed;
}

void ExpectBits(Format format, int r, int lane, float code, const std::vector<Changed>& expected) {
  const std::vector<Changed> got = ChangedBy(format, r, lane, code);
  ASSERT_EQ(got.size(), expected.size()) << Name(format);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].byte, expected[i].byte) << Name(format);
    EXPECT_EQ(got[i].bits, expected[i].bits) << Name(format);
  }
}

TEST(CachePanel, BitsLieAsDrawn) {
  constexpr Format kTwo = WithRange(Format::kInt2, CodeRange::kMin),
                   kThree = WithRange(Format::kInt3, CodeRange::kZero);
  ExpectBits(Format::kInt4, 5, 3, 7, {{4 * 3 + 1, 15 << 4}});                                     // 7 + 8
  ExpectBits(Format::kInt6, 13, 2, 31, {{256 + 4 * 2 + 1, 15 << 4}, {512 + 4 * 2 + 1, 3 << 6}});  // 31 + 32
  ExpectBits(WithRange(Format::kInt8, CodeRange::kMin), 2, 1, 255, {{4 + 2, 127}});
  ExpectBits(Format::kInt2, 6, 63, 1, {{4 * 63 + 2, 3 << 2}});                        // 1 + 2
  ExpectBits(kTwo, 6, 63, 2, {{4 * 63 + 2, 2 << 2}});                                 // 2
  ExpectBits(Format::kInt3, 15, 1, 3, {{4 * 1 + 3, 3 << 6}, {256 + 2 + 1, 1 << 7}});  // 3 + 4: bit 4 x 3 + 3 of 16
  ExpectBits(kThree, 1, 10, 4, {{256 + 2 * 10, 1 << 4}});                             // 4: bit 4 x 1 + 0
}

TEST(CachePanel, EveryCodeAtEveryPlaceComesBack) {
  constexpr int kInputs = 32;
  for (const Format& ranged : RangedIntegers()) {
    for (const Format& format : {ranged, WithRange(ranged, CodeRange::kOwn)}) {
      const FormatInfo f = Info(format);
      const int count = f.max_code - f.min_code + 1;
      std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(format, kInputs)), std::byte{0x5a});
      const auto code = [&](int input, int lane) {
        return static_cast<float>(f.min_code + (7 * input + lane) % count);
      };
      for (int input = 0; input < kInputs; ++input) {
        float codes[kPanelLanes];
        for (int lane = 0; lane < kPanelLanes; ++lane) codes[lane] = code(input, lane);
        WritePanel(format, panel.data(), {input, 0, 0, 1}, codes, kPanelLanes);
      }
      for (int input = 0; input < kInputs; ++input)
        for (int lane = 0; lane < kPanelLanes; ++lane)
          ASSERT_EQ(ReadInput(format, panel.data(), input, lane), code(input, lane))
              << Name(format) << input << " " << lane;
    }
  }
}

constexpr Format kGrids[] = {Format::kFp8E4M3,
                             Format::kFp8E5M2,
                             Format::kNf4,
                             Format::kNormal4,
                             Format::kNormal3,
                             Format::kNormal2,
                             WithRange(Format::kNormal3, CodeRange::kMean)};

TEST(CachePanel, EveryValueOfAGridAtEveryPlaceComesBack) {
  constexpr int kInputs = 32;
  for (const Format& format : kGrids) {
    std::vector<float> values;
    for (const float value : StoredValues(format))
      if (std::isfinite(value)) values.push_back(value);
    std::vector<std::byte> panel(static_cast<size_t>(PanelBytes(format, kInputs)), std::byte{0x5a});
    ASSERT_EQ(std::ssize(panel), kInputs * 64 * Info(format).bits / 8);
    const auto at = [&](int input, int lane) { return values[static_cast<size_t>(7 * input + lane) % values.size()]; };
    for (int lane = 0; lane < kPanelLanes; ++lane) {
      float of_lane[kInputs];
      for (int input = 0; input < kInputs; ++input) of_lane[input] = at(input, lane);
      WritePanel(format, panel.data(), {0, lane, 1, 0}, of_lane, kInputs);
    }
    for (int input = 0; input < kInputs; ++input)
      for (int lane = 0; lane < kPanelLanes; ++lane)
        ASSERT_EQ(ReadInput(format, panel.data(), input, lane), at(input, lane)) << Name(format) << input << lane;
  }
}

TEST(CachePanel, FormatsOfCaches) {
  EXPECT_TRUE(IsCached(Format::kF32) && IsCached(Format::kBf16) && IsCached(Format::kInt2));
  EXPECT_TRUE(IsCached(WithRange(Format::kInt3, CodeRange::kZero)));
  EXPECT_FALSE(IsCached(Format::kU4) || IsCached(Format::kMxInt8) || IsCached(Format::kTernary));
  for (const char* name : {"fp8e4m3", "fp8e5m2", "fp8e4m3:ties-away", "nf4", "normal2", "grid(-1 0 1)", "mxfp4:rceil",
                           "mxfp8e4m3", "mxfp8e5m2", "nvfp4", "nvint4"})
    EXPECT_TRUE(IsCached(*ParseFormat(name))) << name;
  for (const char* name : {"fp8e4m3:floor", "nf4:ceil", "normal1", "e8p", "nvfp4:256", "nvfp4:4over6", "mxfp6e2m3"})
    EXPECT_FALSE(IsCached(*ParseFormat(name))) << name;
  EXPECT_TRUE(IsCached(WithRange(Format::kNormal3, CodeRange::kMean)));
  std::vector<float> list(17);
  std::iota(list.begin(), list.end(), 0.0f);
  EXPECT_FALSE(IsCached(Format(Levels(list))));
  list.pop_back();
  EXPECT_TRUE(IsCached(Format(Levels(list))));
  EXPECT_EQ(PanelBytes(Format::kInt2, 48), 64 * 48 / 4);
  EXPECT_EQ(PanelBytes(Format::kInt3, 16), 384);
}

constexpr int kCount = 16, kValues = 37;

float FloatAt(const std::vector<std::byte>& memory, int64_t byte) {
  float value;
  std::memcpy(&value, memory.data() + byte, 4);
  return value;
}

// Values of a grid are those that a plan simulates.
TEST(PageScales, GridsAreThoseOfTheRule) {
  for (const Format& format : kGrids) {
    const PageScales scales(format, kCount);
    ASSERT_EQ(scales.Bytes(), kCount * (HasOffset(format) ? 8 : 4));
    for (const float factor : {1.0f, 1e-35f, 1e30f, 0.0f}) {
      std::vector<float> row = RandomNormal(kValues, 2), codes(kValues);
      for (float& x : row) x *= factor;
      std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes()));
      scales.Round(row.data(), kValues, memory.data(), 5, codes.data());
      const Ends ends = EndsOf(row, format);
      const GroupScale group = GroupScaleFor(ends, format, ends.high);
      EXPECT_EQ(FloatAt(memory, 4 * 5), group.scale.scale) << Name(format);
      for (int i = 0; i < kValues; ++i) EXPECT_EQ(codes[i], RoundedIn(row[i], group, format)) << Name(format) << i;
      std::vector<float> values = codes;
      scales.Dequantize(memory.data(), 5, kValues, values.data());
      for (int i = 0; i < kValues; ++i) EXPECT_EQ(values[i], ValueOf(codes[i], group)) << Name(format) << i;
    }
  }
}

TEST(PageScales, CodesScalesAndMinimaAreThoseOfTheRule) {
  std::vector<std::vector<float>> rows;
  for (const float shift : {0.0f, 3.0f, -40.0f}) {
    rows.push_back(RandomNormal(kValues, 2));
    for (float& x : rows.back()) x = 0.3f * x + shift;
  }
  rows.emplace_back(kValues, 1e-35f);  // below the smallest range
  rows.emplace_back(kValues, 2.5f);
  for (const Format& ranged : RangedIntegers()) {
    for (const Format& format : {ranged, WithRange(ranged, CodeRange::kOwn)}) {
      const PageScales scales(format, kCount);
      ASSERT_EQ(scales.Bytes(), kCount * (HasOffset(format) ? 8 : 4));
      for (const std::vector<float>& row : rows) {
        std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes()));
        std::vector<float> codes(kValues);
        scales.Round(row.data(), kValues, memory.data(), 2, codes.data());
        const Ends ends = EndsOf(row, format);
        const GroupScale group = GroupScaleFor(ends, format, ends.high);
        EXPECT_EQ(FloatAt(memory, 4 * 2), group.scale.scale) << Name(format);
        if (HasOffset(format)) {
          EXPECT_EQ(FloatAt(memory, scales.Minima() + 4 * 2), group.origin - group.zero * group.scale.scale);
        }
        std::vector<float> values = codes;
        scales.Dequantize(memory.data(), 2, kValues, values.data());
        for (int i = 0; i < kValues; ++i) {
          EXPECT_EQ(codes[i], RoundedIn(row[i], group, format)) << Name(format) << i;
          EXPECT_EQ(values[i], ValueOf(codes[i], group)) << Name(format) << i;
        }
      }
    }
  }
}

// A scale of each: what a token's row has whose channels share scales.
TEST(PageScales, EachValueByItsOwn) {
  constexpr Format kFormat = WithRange(Format::kInt3, CodeRange::kZero);
  const PageScales scales(kFormat, kCount);
  std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes())), moved = memory;
  const std::vector<float> data = RandomNormal(kCount * kValues, 4);
  std::vector<float> row(kCount), codes(kValues);
  for (int i = 0; i < kCount; ++i) {
    scales.Round(data.data() + i * kValues, kValues, memory.data(), i, codes.data());
    row[i] = codes[5];
    scales.Copy(moved.data(), kCount - 1 - i, memory.data(), i);
  }
  std::vector<float> together = row;
  scales.DequantizeEach(memory.data(), 0, kCount, together.data());
  float last = row[kCount - 1];
  scales.DequantizeEach(memory.data(), kCount - 1, 1, &last);
  EXPECT_EQ(last, together.back());
  for (int i = 0; i < kCount; ++i) {
    float alone = row[i], elsewhere = row[i];
    scales.Dequantize(memory.data(), i, 1, &alone);
    scales.Dequantize(moved.data(), kCount - 1 - i, 1, &elsewhere);
    EXPECT_EQ(together[i], alone);
    EXPECT_EQ(elsewhere, alone);
  }
}

// The number of 11 bits beside x, of those that are at most it; none is finer than 2^-24.
double F16Below(double x) {
  const double step = x == 0 ? 1 : std::ldexp(1.0, std::max(std::ilogb(x) - 10, -24));
  return std::floor(x / step) * step;
}

// Near 0, of both signs, of one sign far from 0, all equal, all 0, tiny and of a few large values.
std::vector<std::vector<float>> HostileRows() {
  std::vector<std::vector<float>> rows;
  for (const float shift : {0.0f, 3.0f, -40.0f, 1000.0f, -16000.0f}) {
    rows.push_back(RandomNormal(kValues, 2));
    for (float& x : rows.back()) x = 0.3f * x + shift;
  }
  for (const float all : {0.0f, 2.5f, -1.7f, 1e-33f, -1e-33f, 16376.0f}) rows.emplace_back(kValues, all);
  for (const float factor : {1e-25f, 1e-7f, 1e-5f, 3000.0f}) {
    rows.push_back(RandomNormal(kValues, 3));
    for (float& x : rows.back()) x *= factor;
  }
  return rows;
}

// In f16: the numbers are those that were announced, and a value is half a step off. Roundings in f32 are some of the
// largest magnitude.
TEST(PageScales, InF16ValuesAreHalfAStepOff) {
  for (const Format& ranged : RangedIntegers()) {
    for (const Format& format : {ranged, WithRange(ranged, CodeRange::kOwn)}) {
      const PageScales scales(format, kCount, HeldScales::kF16);
      ASSERT_EQ(scales.Bytes(), 64);
      for (const std::vector<float>& row : HostileRows()) {
        std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes()));
        std::vector<float> codes(kValues), values;
        scales.Round(row.data(), kValues, memory.data(), 3, codes.data());
        const bool from_least = Info(format).range == CodeRange::kMin;
        const double least = std::ranges::min(row), most = std::ranges::max(row), absmax = std::max(-least, most);
        const double low = from_least ? F16Below(least) : std::min(least, 0.0);
        const double range = HasOffset(format) ? (from_least ? most : std::max(most, 0.0)) - low : absmax;
        const double step = range < 0x1p-100 ? 0 : range / Info(format).Largest();
        alignas(64) float loaded[2];
        const PageScales::Numbers numbers = scales.Load(memory.data(), 3, 1, loaded);
        EXPECT_GE(numbers.scales[0] * (1 + 0x1p-22), step) << Name(format) << " " << row[0];
        EXPECT_LE(numbers.scales[0], step * (1 + 0x1p-22) + std::max(step * 0x1p-10, 0x1p-24))
            << Name(format) << " " << row[0];
        ASSERT_EQ(numbers.minima != nullptr, HasOffset(format));
        if (from_least) {
          EXPECT_EQ(numbers.minima[0], low) << Name(format);
        }
        values = codes;
        scales.Dequantize(memory.data(), 3, kValues, values.data());
        for (int i = 0; i < kValues; ++i) {
          EXPECT_TRUE(codes[i] >= Info(format).min_code && codes[i] <= Info(format).max_code);
          const double bound = range < 0x1p-100 ? range : 0.5001 * numbers.scales[0] + 4 * 0x1p-24 * absmax;
          EXPECT_NEAR(values[i], row[i], bound) << Name(format) << " " << row[i];
          const float minimum = numbers.minima == nullptr ? 0.0f : numbers.minima[0];
          EXPECT_NEAR(codes[i] * double{numbers.scales[0]} + minimum, values[i], 4 * 0x1p-24 * absmax);
        }
      }
    }
  }
}

// A zero point as it is, and another row of it.
TEST(PageScales, InF16ZeroPointsAreWhole) {
  constexpr Format kFormat = WithRange(Format::kInt8, CodeRange::kZero);
  const PageScales scales(kFormat, kCount, HeldScales::kF16);
  std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes())), moved = memory;
  for (const float shift : {0.0f, -0.5f, -3.0f, 3.0f}) {
    std::vector<float> row = RandomNormal(kValues, 4), codes(kValues);
    for (float& x : row) x += shift;
    scales.Round(row.data(), kValues, memory.data(), 7, codes.data());
    uint16_t bits;
    std::memcpy(&bits, memory.data() + scales.Minima() + 2 * 7, 2);
    const float zero = FloatFromF16(bits);
    EXPECT_TRUE(zero == std::nearbyint(zero) && zero >= 0 && zero <= 255) << zero;
    float value = zero;
    scales.Dequantize(memory.data(), 7, 1, &value);
    EXPECT_EQ(value, 0.0f);
    scales.Copy(moved.data(), 2, memory.data(), 7);
    std::vector<float> here = codes, there = codes;
    scales.Dequantize(memory.data(), 7, kValues, here.data());
    scales.Dequantize(moved.data(), 2, kValues, there.data());
    EXPECT_EQ(here, there);
  }
}

// As kernels read them: of f32 where they lie.
TEST(PageScales, SeveralAreLoaded) {
  constexpr Format kFormat = WithRange(Format::kInt4, CodeRange::kMin);
  for (const HeldScales held : {HeldScales::kF32, HeldScales::kF16}) {
    const PageScales scales(kFormat, kCount, held);
    AlignedBuffer<std::byte> memory(static_cast<size_t>(scales.Bytes()));
    const std::vector<float> data = RandomNormal(kCount * kValues, 4);
    std::vector<float> codes(kValues);
    for (int i = 0; i < kCount; ++i) scales.Round(data.data() + i * kValues, kValues, memory.data(), i, codes.data());
    alignas(64) float loaded[2 * kCount];
    const PageScales::Numbers some = scales.Load(memory.data(), 4, 5, loaded);
    EXPECT_EQ(some.scales == loaded, held == HeldScales::kF16);
    for (int i = 0; i < 5; ++i) {
      float values[] = {0, 1};
      scales.Dequantize(memory.data(), 4 + i, 2, values);
      EXPECT_EQ(some.minima[i], values[0]);
      EXPECT_EQ(some.scales[i] + some.minima[i], values[1]);
    }
  }
}

TEST(PageScales, NumbersHaveNone) {
  EXPECT_EQ(PageScales(Format::kF32, 64).Bytes(), 0);
  EXPECT_EQ(PageScales(Format::kBf16, 64).Bytes(), 0);
}

}  // namespace

}  // namespace tare::panel_test
