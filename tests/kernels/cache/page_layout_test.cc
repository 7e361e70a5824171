// SPDX-License-Identifier: Apache-2.0
// Rows of a page against the one quantizer, and the bytes of panels against those of packed weights.
#include "kernels/cache/page_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/linear/packed_matrix.h"
#include "quant/base/float16.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/quantize_group.h"
#include "tests/support/random_quantized.h"
#include "tests/support/ranged_integers.h"

namespace tare::page_layout_test {
namespace {

constexpr Format kNumbers[] = {Format::kF32, Format::kBf16};

// Integers of every width and range.
std::vector<Format> CodeFormats() {
  std::vector<Format> formats = RangedIntegers();
  formats.insert(formats.end(), std::begin(kSignedIntegers), std::end(kSignedIntegers));
  return formats;
}

std::vector<Format> AllFormats() {
  std::vector<Format> formats = CodeFormats();
  formats.insert(formats.end(), std::begin(kNumbers), std::end(kNumbers));
  return formats;
}

struct Page {
  explicit Page(const PageLayout& layout) : bytes(static_cast<size_t>(layout.Bytes())), values(layout.k().Bytes()) {
    std::ranges::fill(bytes.span(), std::byte{0});
  }
  std::byte* k() { return bytes.data(); }
  std::byte* v() { return bytes.data() + values; }

  AlignedBuffer<std::byte> bytes;
  int64_t values;
};

// A row after it is quantized, by the scalar definition.
std::vector<float> Expected(Format format, std::span<const float> row) {
  std::vector<float> values(row.begin(), row.end());
  if (format == Format::kBf16) {
    for (float& x : values) x = FloatFromBf16(Bf16FromFloat(x));
  } else if (HasCodes(format)) {
    const Ends ends = EndsOf(row, format);
    const GroupScale group = GroupScaleFor(ends, format, ends.high);
    std::ranges::transform(row, values.begin(), [&](float x) { return ValueOf(RoundedIn(x, group, format), group); });
  }
  return values;
}

TEST(PageLayout, RowsComeBackAsTheQuantizerLeavesThem) {
  const CacheShape shape{.k_heads = 3, .k_width = 40, .v_heads = 2, .v_width = 70};
  const std::vector<float> data = RandomNormal(64 * 3 * 70, 1);
  for (const Format& format : AllFormats()) {
    const PageLayout layout(shape, {format}, {format});
    Page page(layout);
    for (int t = 63; t >= 0; --t) {
      for (int h = 0; h < 3; ++h) layout.k().Write(page.k(), t, h, data.data() + (t * 3 + h) * 70);
      for (int h = 0; h < 2; ++h) layout.v().Write(page.v(), t, h, data.data() + (t * 3 + h) * 70);
    }
    layout.k().Write(page.k(), 5, 1, data.data());  // over what was there
    std::vector<float> row(70);
    for (int t = 0; t < 64; ++t) {
      for (int h = 0; h < 3; ++h) {
        const float* from = data.data() + (t == 5 && h == 1 ? 0 : (t * 3 + h) * 70);
        layout.k().Read(page.k(), t, h, row.data());
        EXPECT_EQ(std::vector(row.begin(), row.begin() + 40), Expected(format, {from, 40})) << Name(format) << t << h;
        if (h == 2) continue;
        layout.v().Read(page.v(), t, h, row.data());
        EXPECT_EQ(row, Expected(format, {data.data() + (t * 3 + h) * 70, 70})) << Name(format) << t << h;
      }
    }
  }
}

// Each channel of a head is a group of 64 for the quantizer; values by token beside them are as ever.
TEST(PageLayout, PagesByChannelComeBackAsTheQuantizerLeavesColumns) {
  const CacheShape shape{.k_heads = 2, .k_width = 24, .v_heads = 1, .v_width = 70};
  const PageLayout plain(shape, {}, {});
  Page from(plain);
  const std::vector<float> k = RandomNormal(64 * 2 * 24, 3), v = RandomNormal(64 * 70, 4);
  for (int t = 0; t < 64; ++t) {
    for (int h = 0; h < 2; ++h) plain.k().Write(from.k(), t, h, k.data() + (t * 2 + h) * 24);
    plain.v().Write(from.v(), t, 0, v.data() + t * 70);
  }
  for (const Format& format : CodeFormats()) {
    const CacheRule by_channel{.format = format, .granularity = {Granularity::Kind::kChannel}};
    for (const CacheRule& values : {by_channel, CacheRule{.format = format}}) {
      const PageLayout layout(shape, by_channel, values);
      ASSERT_TRUE(layout.ByPages());
      Page page(layout);
      layout.k().WriteAll(page.k(), plain.k(), from.k());
      layout.v().WriteAll(page.v(), plain.v(), from.v());
      std::vector<float> row(70), column(64);
      for (int c = 0; c < 24; ++c) {
        for (int t = 0; t < 64; ++t) column[t] = k[(t * 2 + 1) * 24 + c];
        const std::vector<float> expected = Expected(format, column);
        for (int t = 0; t < 64; ++t) {
          layout.k().Read(page.k(), t, 1, row.data());
          ASSERT_EQ(row[c], expected[t]) << Name(format) << c << t;
        }
      }
      for (int c = 0; c < 70 && values.ByChannel(); ++c) {
        for (int t = 0; t < 64; ++t) column[t] = v[t * 70 + c];
        const std::vector<float> expected = Expected(format, column);
        for (int t = 0; t < 64; ++t) {
          layout.v().Read(page.v(), t, 0, row.data());
          ASSERT_EQ(row[c], expected[t]) << Name(format) << c << t;
        }
      }
      for (int t = 0; t < 64 && !values.ByChannel(); ++t) {
        layout.v().Read(page.v(), t, 0, row.data());
        ASSERT_EQ(row, Expected(format, {v.data() + t * 70, 70})) << t;
      }
    }
  }
}

// What share a scale in f16, from PageScales alone: n values of a row of this format.
std::vector<float> ExpectedInF16(Format format, std::span<const float> values) {
  const PageScales scales(format, 1, HeldScales::kF16);
  std::vector<std::byte> memory(static_cast<size_t>(scales.Bytes()));
  std::vector<float> result(values.size());
  const int n = static_cast<int>(values.size());
  scales.Round(values.data(), n, memory.data(), 0, result.data());
  scales.Dequantize(memory.data(), 0, n, result.data());
  return result;
}

// Tokens are written one by one, last first, and one of them twice and to another place: each run of its channels, the
// last of which is short, is a group.
TEST(PageLayout, ValuesInGroupsComeBack) {
  constexpr int kWidth = 150;
  const std::vector<float> data = RandomNormal(64 * kWidth, 7);
  for (const int n : {32, 64}) {
    for (const Format& format : CodeFormats()) {
      const PageLayout layout({.k_heads = 1, .k_width = 8, .v_heads = 2, .v_width = kWidth}, {},
                              {format, {Granularity::Kind::kGroup, n}});
      EXPECT_FALSE(layout.ByPages());
      Page page(layout);
      layout.v().Write(page.v(), 5, 1, data.data());
      for (int t = 63; t >= 0; --t) layout.v().Write(page.v(), t, 1, data.data() + t * kWidth);
      layout.v().Copy(page.v(), 9, page.v(), 60, 1);
      std::vector<float> row(kWidth);
      for (int t = 0; t < 64; ++t) {
        layout.v().Read(page.v(), t, 1, row.data());
        const float* from = data.data() + (t == 9 ? 60 : t) * kWidth;
        for (int c = 0; c < kWidth; c += n) {
          const int count = std::min(n, kWidth - c);
          ASSERT_EQ(std::vector(row.begin() + c, row.begin() + c + count),
                    ExpectedInF16(format, {from + c, static_cast<size_t>(count)}))
              << Name(format) << n << " " << t << " " << c;
        }
      }
    }
  }
}

// Each channel over 32 tokens, or 64, is a group.
TEST(PageLayout, KeysInBlocksComeBack) {
  constexpr int kWidth = 24;
  const CacheShape shape{.k_heads = 2, .k_width = kWidth, .v_heads = 1, .v_width = 8};
  const PageLayout plain(shape, {}, {});
  Page from(plain);
  const std::vector<float> k = RandomNormal(64 * kWidth, 3);
  for (int t = 0; t < 64; ++t) plain.k().Write(from.k(), t, 1, k.data() + t * kWidth);
  for (const int n : {32, 64}) {
    for (const Format& format : CodeFormats()) {
      const PageLayout layout(shape, {format, {Granularity::Kind::kBlockChannel, n}}, {});
      EXPECT_TRUE(layout.ByPages());
      Page page(layout);
      layout.k().WriteAll(page.k(), plain.k(), from.k());
      std::vector<float> row(kWidth), column(static_cast<size_t>(n));
      for (int c = 0; c < kWidth; ++c) {
        for (int block = 0; block < 64; block += n) {
          for (int t = 0; t < n; ++t) column[t] = k[(block + t) * kWidth + c];
          const std::vector<float> expected = ExpectedInF16(format, column);
          for (int t = 0; t < n; ++t) {
            layout.k().Read(page.k(), block + t, 1, row.data());
            ASSERT_EQ(row[c], expected[t]) << Name(format) << n << " " << c << " " << t;
          }
        }
      }
    }
  }
}

// KIVI's setting: three bits a value, 16 of a scale and 16 of a minimum for 32 values.
TEST(PageLayout, RunsOfLanesAndTheirScales) {
  constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin);
  using enum Granularity::Kind;
  const CacheShape shape{.k_heads = 2, .k_width = 40, .v_heads = 2, .v_width = 150};
  const PageLayout kivi(shape, {kTwoBits, {kBlockChannel, 32}}, {kTwoBits, {kGroup, 32}});
  constexpr int64_t kKeyPanel = 48 * 64 / 4, kValuePanels = 3 * 64 * 64 / 4;
  EXPECT_EQ(kivi.k().Minima(1) - kivi.k().Scales(1), 2 * 48 * 2);
  EXPECT_EQ(kivi.k().Panel(1) - kivi.k().Scales(1), 2 * 2 * 48 * 2);
  EXPECT_EQ(kivi.k().Bytes(), 2 * (kKeyPanel + 2 * 2 * 48 * 2));
  EXPECT_EQ(kivi.v().Panel(1) - kivi.v().Scales(1), 2 * 5 * 64 * 2);
  EXPECT_EQ(kivi.v().Bytes(), 2 * (kValuePanels + 2 * 5 * 64 * 2));
  EXPECT_EQ(kivi.k().Runs(), 2);
  EXPECT_EQ(kivi.v().Runs(), 5);
  const LaneRun second = kivi.k().Run(1), last = kivi.v().Run(4);
  EXPECT_TRUE(second.panel == 0 && second.panels == 1 && second.begin == 32 && second.end == 64);
  EXPECT_TRUE(last.panel == 2 && last.panels == 1 && last.begin == 0 && last.end == 32);
  // Runs of 64 lanes: one of keys, whose 48 f16 end off a cache line, and one of values for each panel.
  const PageLayout wide(shape, {Format::kInt4, {kBlockChannel, 64}}, {Format::kInt4, {kGroup, 64}});
  EXPECT_EQ(wide.k().Panel(0), 128);
  EXPECT_EQ(wide.k().Runs(), 1);
  EXPECT_EQ(wide.v().Runs(), 3);
  EXPECT_TRUE(wide.v().Run(1).panel == 1 && wide.v().Run(1).begin == 0 && wide.v().Run(1).end == 64);
  const LaneRun all = PageLayout(shape, {Format::kInt4}, {Format::kInt4}).v().Run(0);
  EXPECT_TRUE(all.panel == 0 && all.panels == 3 && all.end == 64);
}

TEST(PageLayout, WhatMayShareAScale) {
  using enum Granularity::Kind;
  constexpr Format kAny = Format::kInt4;
  for (const Granularity either : {Granularity{kToken}, Granularity{kChannel}, Granularity{kTensor}})
    EXPECT_TRUE(MayShareKeyScale(kAny, either) && MayShareValueScale(kAny, either));
  for (const int n : {1, 16, 31, 32, 48, 64, 128}) {
    EXPECT_EQ(MayShareKeyScale(kAny, {kBlockChannel, n}), n == 32 || n == 64);
    EXPECT_EQ(MayShareValueScale(kAny, {kGroup, n}), n == 32 || n == 64);
    EXPECT_FALSE(MayShareKeyScale(kAny, {kGroup, n}) || MayShareValueScale(kAny, {kBlockChannel, n}));
    EXPECT_EQ(MayShareKeyScale(Format::kNvFp4, {kGroup, n}), n == 16);
    EXPECT_EQ(MayShareValueScale(Format::kMxFp4, {kGroup, n}), n == 32);
  }
  for (const Granularity::Kind kind : {kHead, kRow, kHeads, kBlock})
    EXPECT_FALSE(MayShareKeyScale(kAny, {kind, 32}) || MayShareValueScale(kAny, {kind, 32}));
}

TEST(PageLayout, APanelOfKeysLiesAsPackedWeightsDo) {
  constexpr int kWidth = 48;
  for (const Format& format : kSignedFormats) {
    const PageLayout layout({.k_heads = 1, .k_width = kWidth, .v_heads = 1, .v_width = 64}, {format}, {format});
    Page page(layout);
    QuantizedMatrixBuffer weights(format, 64, kWidth, kWidth);
    const std::vector<float> data = RandomNormal(64 * kWidth, 2);
    for (int t = 0; t < 64; ++t) {
      const std::span<const float> row(data.data() + t * kWidth, kWidth);
      layout.k().Write(page.k(), t, 0, row.data());
      std::vector<int16_t> wide(kWidth);
      weights.Scales(t)[0] = QuantizeGroup(row, format, wide);
      const std::vector<int8_t> codes(wide.begin(), wide.end());
      Pack<int8_t>(format, codes, {weights.Codes(t), weights.view().RowBytes()});
    }
    const PackedMatrix packed(weights.view());
    ASSERT_EQ(static_cast<size_t>(PanelBytes(format, kWidth)), packed.PanelBytes());
    EXPECT_EQ(std::memcmp(page.k() + layout.k().Panel(0), packed.Codes(0), packed.PanelBytes()), 0) << Name(format);
    EXPECT_EQ(std::memcmp(page.k() + layout.k().Scales(0), packed.Scales(0), 64 * 4), 0) << Name(format);
  }
}

// K and V of V1: of the one all heads, then of the other.
TEST(PageLayout, KeysAndValuesLieApart) {
  const PageLayout v1({.k_heads = 4, .k_width = 64, .v_heads = 2, .v_width = 128}, {Format::kInt4}, {Format::kInt4});
  constexpr int64_t kKey = 64 * 64 / 2 + 256, kValue = 64 * 128 / 2 + 256;
  EXPECT_EQ(v1.k().Panel(0), 0);
  EXPECT_EQ(v1.k().Panel(3), 3 * kKey);
  EXPECT_EQ(v1.k().Bytes(), 4 * kKey);
  EXPECT_EQ(v1.v().Scales(0), 0);
  EXPECT_EQ(v1.v().Scales(1), kValue);
  EXPECT_EQ(v1.v().Bytes(), 2 * kValue);
  EXPECT_EQ(v1.Bytes(), 4 * kKey + 2 * kValue);
}

// A row of one value and a row of zeros: with minima their range is 0, and they come back exactly.
TEST(PageLayout, RowsWithoutARange) {
  constexpr float kRow[3] = {-1.7f, -1.7f, -1.7f}, kZeros[3] = {0, 0, 0};
  for (const Format& format : CodeFormats()) {
    const PageLayout layout({.k_heads = 1, .k_width = 3, .v_heads = 1, .v_width = 3}, {format}, {format});
    Page page(layout);
    layout.k().Write(page.k(), 0, 0, kRow);
    layout.k().Write(page.k(), 1, 0, kZeros);
    float row[3];
    layout.k().Read(page.k(), 0, 0, row);
    if (Info(format).range == CodeRange::kMin) {
      EXPECT_EQ(row[1], kRow[1]) << Name(format);
    }
    EXPECT_EQ(row[2], Expected(format, kRow)[2]) << Name(format);
    layout.k().Read(page.k(), 1, 0, row);
    EXPECT_EQ(row[0], 0.0f) << Name(format);
  }
}

// A row moved to another place has its codes, scale and minimum there.
TEST(PageLayout, CopiedRowsAreTheSame) {
  const std::vector<float> data = RandomNormal(70, 5);
  for (const Format& format : AllFormats()) {
    const PageLayout layout({.k_heads = 1, .k_width = 70, .v_heads = 1, .v_width = 70}, {format}, {format});
    Page from(layout), to(layout);
    layout.k().Write(from.k(), 9, 0, data.data());
    layout.v().Write(from.v(), 9, 0, data.data());
    layout.k().Copy(to.k(), 40, from.k(), 9, 0);
    layout.v().Copy(to.v(), 40, from.v(), 9, 0);
    std::vector<float> row(70);
    layout.k().Read(to.k(), 40, 0, row.data());
    EXPECT_EQ(row, Expected(format, data)) << Name(format);
    layout.v().Read(to.v(), 40, 0, row.data());
    EXPECT_EQ(row, Expected(format, data)) << Name(format);
  }
}

// Scales lie in the order in which decoding reads them.
TEST(PageLayout, ScalesLieWhereTheyAreRead) {
  constexpr CacheRule kToken{Format::kInt8}, kChannel{Format::kInt8, {Granularity::Kind::kChannel}};
  constexpr CacheShape kShape{.k_heads = 2, .k_width = 40, .v_heads = 2, .v_width = 65};
  constexpr int64_t kKeyPanel = 48 * 64, kValuePanels = 2 * 64 * 64;
  const PageLayout token(kShape, kToken, kToken), channel(kShape, kChannel, kChannel);
  EXPECT_EQ(token.k().Panel(1), kKeyPanel + 64 * 4);
  EXPECT_EQ(token.k().Scales(1), token.k().Panel(1) + kKeyPanel);
  EXPECT_EQ(token.k().Bytes(), token.k().Scales(1) + 64 * 4);
  EXPECT_EQ(channel.k().Scales(1), kKeyPanel + 48 * 4);
  EXPECT_EQ(channel.k().Panel(1), channel.k().Scales(1) + 48 * 4);
  EXPECT_EQ(channel.k().Bytes(), channel.k().Panel(1) + kKeyPanel);
  EXPECT_EQ(token.v().Panel(1), token.v().Scales(1) + 64 * 4);
  EXPECT_EQ(token.v().Bytes(), token.v().Panel(1) + kValuePanels);
  EXPECT_EQ(channel.v().Panel(1), channel.v().Scales(1) + 128 * 4);
  EXPECT_EQ(channel.v().Bytes(), channel.v().Panel(1) + kValuePanels);
}

// What a page of two-bit codes with minima takes: two bits a value, and two floats for each that shares a scale.
TEST(PageLayout, MinimaFollowScales) {
  constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin);
  constexpr CacheRule kToken{kTwoBits}, kChannel{kTwoBits, {Granularity::Kind::kChannel}};
  const PageLayout kivi({.k_heads = 2, .k_width = 40, .v_heads = 2, .v_width = 65}, kChannel, kToken);
  constexpr int64_t kKeyPanel = 48 * 64 / 4, kValuePanels = 2 * 64 * 64 / 4;
  EXPECT_EQ(kivi.k().Minima(0), 48 * 4);
  EXPECT_EQ(kivi.k().Panel(0), 2 * 48 * 4);
  EXPECT_EQ(kivi.k().Bytes(), 2 * (kKeyPanel + 2 * 48 * 4));
  EXPECT_EQ(kivi.v().Minima(1), kivi.v().Scales(1) + 64 * 4);
  EXPECT_EQ(kivi.v().Panel(1), kivi.v().Scales(1) + 2 * 64 * 4);
  EXPECT_EQ(kivi.v().Bytes(), 2 * (kValuePanels + 2 * 64 * 4));
  const PageLayout token({.k_heads = 2, .k_width = 40, .v_heads = 1, .v_width = 1}, kToken, {});
  EXPECT_EQ(token.k().Scales(1), token.k().Panel(1) + kKeyPanel);
  EXPECT_EQ(token.k().Bytes(), token.k().Minima(1) + 64 * 4);
}

}  // namespace
}  // namespace tare::page_layout_test
