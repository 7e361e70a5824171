// SPDX-License-Identifier: Apache-2.0
// Every format on every target against plain loops over the panel read back.
#include "kernels/decode/panel_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "quant/base/aligned.h"
#include "quant/format/pack.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/each_target.h"
#include "tests/support/panel_input.h"
#include "tests/support/random_decode.h"
#include "tests/support/random_quantized.h"

namespace tare::panel_product_test {
namespace {

constexpr int kInputs = 48, kVectors = 5;
constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin);

AlignedBuffer<float> Aligned(const std::vector<float>& values) {
  AlignedBuffer<float> memory(values.size());
  std::ranges::copy(values, memory.data());
  return memory;
}

TEST(PanelProduct, EveryFormatAgainstLoops) {
  const std::vector<float> data = RandomNormal(64 * kInputs, 1);
  for (const Format& format : kCachedFormats) {
    const PageLayout layout({.k_heads = 1, .k_width = kInputs, .v_heads = 1, .v_width = 64}, {format}, {format});
    AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
    for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, data.data() + lane * kInputs);
    // Integers that planes have exactly, with sums far below 2^24: every result is exact.
    std::vector<AlignedBuffer<float>> x;
    for (int f = 0; f < kVectors; ++f) {
      std::vector<float> values;
      for (int i = 0; i < kInputs; ++i) values.push_back(static_cast<float>((i * (37 + 16 * f)) % 200 - 100));
      values[3] = kLargestPlaneCode;
      x.push_back(Aligned(values));
    }
    OnEachTarget(kAllTargets, [&] {
      AlignedBuffer<int8_t> planes(2 * kVectors * kInputs);
      for (const size_t count : {0, 1, 2, 3, 5}) {
        PanelFactor factors[kVectors];
        AlignedBuffer<float> y = Aligned(std::vector<float>(64 * kVectors, 0.5f));
        for (int f = 0; f < kVectors; ++f) {
          int8_t* high = planes.data() + 2 * f * kInputs;
          ToPlanes(x[f].data(), nullptr, kInputs, high, high + kInputs, factors[f]);
          ASSERT_EQ(factors[f].scale, 1.0f);
          factors[f].x = x[f].data();
          factors[f].y = y.data() + 64 * f;
        }
        PanelProduct({format, page.data(), kInputs}, {factors, count}, {});
        for (size_t f = 0; f < kVectors; ++f) {
          for (int lane = 0; lane < 64; ++lane) {
            double sum = 0.5, size = 0.5;
            for (int i = 0; i < kInputs; ++i) {
              const double from = HasCodes(format) ? RaisedBy(format) - MiddleOf(format) : 0;
              const double product = (ReadInput(format, page.data(), i, lane) + from) * x[f][i];
              sum += product;
              size += std::abs(product);
            }
            const double bound = IsInteger(format) ? 0 : (kInputs + 1) * 0x1p-24 * size;
            ASSERT_NEAR(y[64 * f + lane], f < count ? sum : 0.5, bound) << Name(format) << lane;
          }
        }
      }
    });
  }
}

// A scale per lane is a factor of that lane's sum: powers of two change no bit but the exponent.
TEST(PanelProduct, LanesHaveTheirOwnScales) {
  const PageLayout layout({.k_heads = 1, .k_width = kInputs, .v_heads = 1, .v_width = 64}, {Format::kInt4}, {});
  AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
  const std::vector<float> data = RandomNormal(64 * kInputs, 1);
  for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, data.data() + lane * kInputs);
  std::vector<float> powers;
  for (int lane = 0; lane < 64; ++lane) powers.push_back(std::ldexp(1.0f, lane % 9 - 4));
  const AlignedBuffer<float> x = Aligned(RandomNormal(kInputs, 5)), scales = Aligned(powers);
  AlignedBuffer<int8_t> planes(2 * kInputs);
  PanelFactor factor;
  ToPlanes(x.data(), nullptr, kInputs, planes.data(), planes.data() + kInputs, factor);
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<float> plain = Aligned(std::vector<float>(64)), scaled = Aligned(std::vector<float>(64));
    factor.y = plain.data();
    factor.lane_scales = nullptr;
    PanelProduct({Format::kInt4, page.data(), kInputs}, {&factor, 1}, {});
    factor.y = scaled.data();
    factor.lane_scales = scales.data();
    PanelProduct({Format::kInt4, page.data(), kInputs}, {&factor, 1}, {});
    for (int lane = 0; lane < 64; ++lane) ASSERT_EQ(scaled[lane], plain[lane] * powers[lane]) << lane;
  });
}

// Panels one after the other, of which only the first inputs count: as each by itself, to its own lanes and by its own
// scales.
TEST(PanelProduct, SeveralPanelsAreAsEachByItself) {
  constexpr int kPanels = 3, kCounted = 32;
  for (const Format& format : kCachedFormats) {
    const PageLayout layout({.k_heads = 1, .k_width = 1, .v_heads = 1, .v_width = 64 * kPanels}, {}, {format});
    AlignedBuffer<std::byte> page(static_cast<size_t>(layout.v().Bytes()));
    const std::vector<float> data = RandomNormal(64 * 64 * kPanels, 1);
    for (int t = 0; t < 64; ++t) layout.v().Write(page.data(), t, 0, data.data() + t * 64 * kPanels);
    const AlignedBuffer<float> x = Aligned(RandomNormal(kCounted, 5)), scales = Aligned(RandomNormal(64 * kPanels, 6));
    AlignedBuffer<int8_t> planes(2 * kCounted);
    PanelFactor factor;
    ToPlanes(x.data(), nullptr, kCounted, planes.data(), planes.data() + kCounted, factor);
    factor.x = x.data();
    OnEachTarget(kAllTargets, [&] {
      AlignedBuffer<float> together = Aligned(std::vector<float>(64 * kPanels, 0.5f));
      AlignedBuffer<float> alone = Aligned(std::vector<float>(64 * kPanels, 0.5f));
      Panels panels{format, page.data() + layout.v().Panel(0), kCounted, kPanels, PanelBytes(format, 64)};
      PanelFactor all = factor;
      all.y = together.data();
      if (HasCodes(format)) all.lane_scales = scales.data();
      PanelProduct(panels, {&all, 1}, {});
      panels.count = 1;
      for (int n = 0; n < kPanels; ++n, panels.first += panels.bytes) {
        PanelFactor one = factor;
        one.y = alone.data() + 64 * n;
        if (HasCodes(format)) one.lane_scales = scales.data() + 64 * n;
        PanelProduct(panels, {&one, 1}, {});
      }
      for (int i = 0; i < 64 * kPanels; ++i) ASSERT_EQ(together[i], alone[i]) << Name(format) << " " << i;
    });
  }
}

// Half a panel is as that half of all of it, and the other half stays as it was.
TEST(PanelProduct, HalfOfAPanelsLanes) {
  const std::vector<float> data = RandomNormal(64 * kInputs, 1);
  for (const Format& format : kCachedFormats) {
    if (!HasCodes(format)) continue;
    const PageLayout layout({.k_heads = 1, .k_width = kInputs, .v_heads = 1, .v_width = 64}, {format}, {});
    AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
    for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, data.data() + lane * kInputs);
    const AlignedBuffer<float> x = Aligned(RandomNormal(kInputs, 5));
    AlignedBuffer<int8_t> planes(2 * kInputs);
    PanelFactor factor{.x = x.data(), .beside = 0.25f};
    ToPlanes(x.data(), nullptr, kInputs, planes.data(), planes.data() + kInputs, factor);
    OnEachTarget(kAllTargets, [&] {
      for (const size_t count : {1, 2, 3}) {
        const std::vector<float> before(64 * 3, 0.5f);
        AlignedBuffer<float> whole = Aligned(before), half = Aligned(before);
        std::vector<PanelFactor> all(count, factor), some(count, factor);
        for (size_t i = 0; i < count; ++i) all[i].y = whole.data() + 64 * i, some[i].y = half.data() + 64 * i;
        PanelProduct({format, page.data(), kInputs}, all, {});
        for (const int begin : {32, 0}) {
          for (size_t i = 0; i < 64 * count; ++i)
            ASSERT_EQ(half.data()[i], begin == 0 && i % 64 >= 32 ? whole.data()[i] : 0.5f) << Name(format) << i;
          PanelProduct({.format = format, .first = page.data(), .inputs = kInputs, .begin = begin, .end = begin + 32},
                       some, {});
        }
        for (size_t i = 0; i < 64 * count; ++i) ASSERT_EQ(half.data()[i], whole.data()[i]) << Name(format) << i;
      }
    });
  }
}

// What a value's minimum adds to its code and scale, of lanes and of inputs: all of it exact in integers.
TEST(PanelProduct, MinimaOfLanesAndOfInputs) {
  const PageLayout layout({.k_heads = 1, .k_width = kInputs, .v_heads = 1, .v_width = 64}, {kTwoBits}, {});
  AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
  const std::vector<float> data = RandomNormal(64 * kInputs, 1);
  for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, data.data() + lane * kInputs);
  std::vector<float> whole, powers;
  for (int i = 0; i < 64; ++i) whole.push_back(static_cast<float>(i % 11 - 7));
  for (int i = 0; i < 64; ++i) powers.push_back(static_cast<float>(1 << i % 3));
  const AlignedBuffer<float> minima = Aligned(whole), scales = Aligned(powers);
  std::vector<float> values(kInputs, -4.0f);
  values[4] = kLargestPlaneCode;  // times 2 / 2
  const AlignedBuffer<float> x = Aligned(values), halves = Aligned(std::vector<float>(kInputs, 0.5f));
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<int8_t> planes(2 * kInputs);
    for (const bool of_lanes : {true, false}) {
      AlignedBuffer<float> y = Aligned(std::vector<float>(64, 0.5f));
      PanelFactor factor{.y = y.data()};
      int8_t* const high = planes.data();
      ToPlanes(x.data(), of_lanes ? nullptr : halves.data(), kInputs, high, high + kInputs, factor);
      if (of_lanes) {
        factor.lane_scales = scales.data();
        factor.lane_minima = minima.data();
      } else {
        factor.beside = CentreSum(kTwoBits, x.data(), halves.data(), minima.data(), kInputs);
      }
      PanelProduct({kTwoBits, page.data(), kInputs}, {&factor, 1}, {});
      for (int lane = 0; lane < 64; ++lane) {
        double sum = 0.5;
        for (int i = 0; i < kInputs; ++i) {
          const double code = ReadInput(kTwoBits, page.data(), i, lane);
          sum += x[i] * (of_lanes ? code * scales[lane] + minima[lane] : code * 0.5 + minima[i]);
        }
        ASSERT_EQ(y[lane], sum) << of_lanes << lane;
      }
    }
  });
}

// Minima of lanes far from 0: planes are off by half a step of the vector's, which multiplies code - h and not the
// minima. Beside it f32 rounds: the vector's sum eight times, its product with a minimum and the rest four times.
TEST(PanelProduct, MinimaOfLanesCostNoRoundingOfTheVector) {
  constexpr Format kEightBits = WithRange(Format::kInt8, CodeRange::kMin);
  const PageLayout layout({.k_heads = 1, .k_width = kInputs, .v_heads = 1, .v_width = 64}, {kEightBits}, {});
  AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
  std::vector<float> data = RandomNormal(64 * kInputs, 1);
  for (float& value : data) value += 100;
  for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, data.data() + lane * kInputs);
  const AlignedBuffer<float> x = Aligned(RandomNormal(kInputs, 5));
  const double largest = std::abs(std::ranges::max(x.span(), {}, [](float v) { return std::abs(v); }));
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<int8_t> planes(2 * kInputs);
    AlignedBuffer<float> y = Aligned(std::vector<float>(64, 0.0f));
    PanelFactor factor{.y = y.data()};
    ToPlanes(x.data(), nullptr, kInputs, planes.data(), planes.data() + kInputs, factor);
    factor.lane_scales = reinterpret_cast<const float*>(page.data() + layout.k().Scales(0));
    factor.lane_minima = reinterpret_cast<const float*>(page.data() + layout.k().Minima(0));
    PanelProduct({kEightBits, page.data(), kInputs}, {&factor, 1}, {});
    for (int lane = 0; lane < 64; ++lane) {
      double sum = 0, size = 0, codes = 0;
      for (int i = 0; i < kInputs; ++i) {
        const double code = ReadInput(kEightBits, page.data(), i, lane), scale = factor.lane_scales[lane];
        sum += x[i] * (code * scale + factor.lane_minima[lane]);
        codes += std::abs(code - MiddleOf(kEightBits)) * scale;
        size += std::abs(x[i]) * (std::abs(factor.lane_minima[lane]) + 255 * scale);
      }
      ASSERT_NEAR(y[lane], sum, 0.502 * codes * largest / kLargestPlaneCode + 12 * 0x1p-24 * size) << lane;
    }
  });
}

TEST(PanelProduct, CentresHaveTheSameBitsOnEveryInstructionSet) {
  const AlignedBuffer<float> x = Aligned(RandomNormal(80, 2)), minima = Aligned(RandomNormal(80, 3)),
                             scales = Aligned(RandomNormal(80, 4));
  double truth = 0, size = 0;
  for (int i = 0; i < 80; ++i) {
    truth += x[i] * (minima[i] + 2.0 * scales[i]);
    size += std::abs(x[i]) * (std::abs(minima[i]) + 2.0 * std::abs(scales[i]));
  }
  std::vector<float> sums;
  OnEachTarget(kAllTargets, [&] { sums.push_back(CentreSum(kTwoBits, x.data(), scales.data(), minima.data(), 80)); });
  for (const float sum : sums) EXPECT_EQ(sum, sums.front());
  EXPECT_NEAR(sums.front(), truth, 12 * 0x1p-24 * size);  // three roundings of a term, five of its part, four of sums
}

// Every code of FP8, subnormals and both zeros among them, and the list's own values: each product alone is exact.
TEST(PanelProduct, EveryCodeOfAGridHasItsValue) {
  const std::vector<float> five{-3.5f, -0.1f, 0.0f, 0x1p-20f, 7.25f};
  for (const Format& format : {Format(Format::kFp8E4M3), Format(Format::kFp8E5M2), Format(Format::kNf4),
                               Format(Format::kNormal3), Format(Format::kNormal2), Format(Format::kMxFp4),
                               Format(Format::kMxFp8E4M3), Format(Format::kNvInt4), Format(Levels(five))}) {
    constexpr int kCodes = 256;
    AlignedBuffer<std::byte> panel(static_cast<size_t>(PanelBytes(format, kCodes)));
    std::ranges::fill(panel.span(), std::byte{0});
    const std::array<float, kCodes>& values = StoredValues(format);
    for (int code = 0; code < kCodes; ++code)
      if (std::isfinite(values[code])) WritePanel(format, panel.data(), {code, code % 64, 0, 0}, &values[code], 1);
    OnEachTarget(kAllTargets, [&] {
      for (int code = 0; code < kCodes; ++code) {
        if (!std::isfinite(values[code])) continue;  // no value
        AlignedBuffer<float> x = Aligned(std::vector<float>(kCodes)), memory(kCodes),
                             weights = Aligned(std::vector<float>(kCodes, 0.5f));
        AlignedBuffer<float> y = Aligned(std::vector<float>(64, 0.0f)), scales = Aligned(std::vector<float>(64, 2.0f));
        x[code] = 4;
        PanelFactor factor{.x = x.data(), .lane_scales = scales.data(), .y = y.data()};
        ToFactor(format, x.data(), weights.data(), kCodes, memory.data(), factor);
        PanelProduct({format, panel.data(), kCodes}, {&factor, 1}, {});
        ASSERT_EQ(y[code % 64], 4 * values[code]) << Name(format) << " " << code;
      }
    });
  }
}

TEST(PanelProduct, PlanesAreHalfAStepOff) {
  AlignedBuffer<float> x = Aligned(RandomNormal(80, 2)), weights = Aligned(RandomNormal(80, 3));
  std::vector<float> sums;
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<int8_t> planes(160);
    PanelFactor factor;
    ToPlanes(x.data(), weights.data(), 80, planes.data(), planes.data() + 80, factor);
    double largest = 0, sum = 0, size = 0;
    int high = 0, low = 0;
    for (int i = 0; i < 80; ++i) {
      const double product = double{x[i]} * weights[i];
      largest = std::max(largest, std::abs(product));
      sum += product;
      size += std::abs(product);
    }
    sums.push_back(factor.sum);
    EXPECT_NEAR(factor.sum, sum, 10 * 0x1p-24 * size);  // a rounding of a product, five of its part, four of sums
    EXPECT_EQ(factor.sum, sums.front());
    EXPECT_NEAR(factor.scale, largest / kLargestPlaneCode, largest * 1e-10);
    for (int i = 0; i < 80; ++i) {
      const int code = 128 * factor.high[i] + factor.low[i];
      ASSERT_NEAR(code * double{factor.scale}, double{x[i]} * weights[i], 0.502 * factor.scale) << i;
      high += factor.high[i];
      low += factor.low[i];
    }
    EXPECT_EQ(factor.high_sum, high);
    EXPECT_EQ(factor.low_sum, low);
    AlignedBuffer<float> zeros = Aligned(std::vector<float>(16, 1e-38f));
    ToPlanes(zeros.data(), nullptr, 16, planes.data(), planes.data() + 80, factor);
    EXPECT_EQ(factor.scale, 0.0f);
    EXPECT_EQ(planes[0], 0);
  });
}

// At the largest width and code a sum is past 2^24, and still within an ulp or two of f32.
TEST(PanelProduct, TheWidestHeadDoesNotOverflow) {
  constexpr int kWidth = 1024;
  const PageLayout layout({.k_heads = 1, .k_width = kWidth, .v_heads = 1, .v_width = 64}, {Format::kInt8},
                          {Format::kInt8});
  AlignedBuffer<std::byte> page(static_cast<size_t>(layout.Bytes()));
  const AlignedBuffer<float> ones = Aligned(std::vector<float>(kWidth, 127.0f));
  for (int lane = 0; lane < 64; ++lane) layout.k().Write(page.data(), lane, 0, ones.data());
  OnEachTarget(kAllTargets, [&] {
    AlignedBuffer<int8_t> planes(2 * kWidth);
    AlignedBuffer<float> y = Aligned(std::vector<float>(64, 0.0f));
    PanelFactor factor{.y = y.data()};
    ToPlanes(ones.data(), nullptr, kWidth, planes.data(), planes.data() + kWidth, factor);
    PanelProduct({Format::kInt8, page.data(), kWidth}, {&factor, 1}, {});
    EXPECT_NEAR(y[0], 127.0 * 127.0 * kWidth, 127.0 * 127.0 * kWidth * 0x1p-21);
  });
}

}  // namespace
}  // namespace tare::panel_product_test
