// SPDX-License-Identifier: Apache-2.0
// Caches in formats with blocks of their own, MX, NVFP4 and NVINT4: what they hold, against their definition in double,
// and decoding over them against the double reference. The bounds of decoding are those of
// tests/kernels/decode/decode_attention_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/cache_tokens.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/emulated.h"
#include "tests/support/random_decode.h"
#include "tests/support/random_quantized.h"

namespace tare::cache_in_blocks_test {
namespace {

using cache_tokens::Rows;
using cache_tokens::Tokens;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = Granularity::Kind;

constexpr Format::Base kFormatsInBlocks[] = {Format::kMxFp4, Format::kMxFp8E4M3, Format::kMxFp8E5M2, Format::kNvFp4,
                                             Format::kNvInt4};

CacheRule InBlocks(const Format& format) { return {format, {Kind::kGroup, Info(format).block}}; }

// Widths that end in the middle of a block of 16 and of 32.
constexpr CacheShape kShape{.k_heads = 2, .k_width = 40, .v_heads = 1, .v_width = 88};
constexpr int kRow = 2 * 40 + 88;
constexpr int64_t kTokens = 150;

// Magnitudes of a grid with so many bits of exponent and mantissa, up to the largest, in the order of their codes.
std::vector<double> Magnitudes(int exponent_bits, int mantissa_bits, double largest) {
  std::vector<double> all;
  const int bias = (1 << (exponent_bits - 1)) - 1, steps = 1 << mantissa_bits;
  for (int code = 0;; ++code) {
    const int exponent = code / steps, mantissa = code % steps;
    const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                       : std::ldexp(steps + mantissa, exponent - bias - mantissa_bits);
    if (value > largest) return all;
    all.push_back(value);
    if (value == largest) return all;
  }
}

// The nearest magnitude, of two at one distance that with the even code.
double Nearest(double x, const std::vector<double>& magnitudes) {
  size_t best = 0;
  for (size_t i = 1; i < magnitudes.size(); ++i) {
    const double before = std::abs(std::abs(x) - magnitudes[best]), now = std::abs(std::abs(x) - magnitudes[i]);
    if (now < before || (now == before && i % 2 == 0)) best = i;
  }
  return std::copysign(magnitudes[best], x);
}

// A block as its format defines it: OCP MX 1.0, and NVFP4 without a scale of the tensor.
std::vector<double> Rounded(std::span<const float> block, Format::Base format) {
  const bool e4m3 = format == Format::kMxFp8E4M3, e5m2 = format == Format::kMxFp8E5M2, ints = format == Format::kNvInt4;
  const std::vector<double> grid = e4m3   ? Magnitudes(4, 3, 448)
                                   : e5m2 ? Magnitudes(5, 2, 57344)
                                   : ints ? std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}
                                          : Magnitudes(2, 1, 6);
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  if (largest == 0) return std::vector<double>(block.size());
  double scale = 0;
  if (format == Format::kNvFp4 || ints) {
    scale = std::max(Nearest(double{largest / static_cast<float>(grid.back())}, Magnitudes(4, 3, 448)), 0x1p-9);
  } else {
    scale = std::exp2(std::floor(std::log2(largest)) - std::floor(std::log2(grid.back())));
  }
  std::vector<double> values;
  for (const float x : block) values.push_back(scale * Nearest(double{x * static_cast<float>(1 / scale)}, grid));
  return values;
}

// Rows of many sizes, blocks of zeros, and one so small that its E4M3 scale is the least.
TEST(CacheInBlocks, ValuesAreThoseOfTheDefinition) {
  Tokens tokens{kShape, kTokens};
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int i = 0; i < 80; ++i) tokens.k[t * 80 + i] *= std::ldexp(1.0f, static_cast<int>(t + i / 8) % 20 - 12);
    for (int i = 0; i < 32 && t % 3 == 0; ++i) tokens.v[t * 88 + 32 + i] = t == 3 ? 1e-4f * static_cast<float>(i) : 0;
  }
  for (const Format::Base format : kFormatsInBlocks) {
    const int block = Info(format).block;
    KvCache cache(kShape, {.k = InBlocks(format), .v = InBlocks(format)});
    tokens.AppendTo(cache, 0, kTokens);
    const std::vector<float> rows = Rows(cache);
    const auto check = [&](std::span<const float> row, const float* read, int64_t t) {
      for (size_t first = 0; first < row.size(); first += block) {
        const auto of_block = row.subspan(first, std::min<size_t>(block, row.size() - first));
        const std::vector<double> expected = Rounded(of_block, format);
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(double{read[first + i]}, expected[i]) << Name(format) << " " << t << " " << first + i;
      }
    };
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) check({tokens.k.data() + t * 80 + 40 * h, 40}, rows.data() + t * kRow + 40 * h, t);
      check({tokens.v.data() + t * 88, 88}, rows.data() + t * kRow + 80, t);
    }
  }
}

// 4.5 bits of NVFP4, 4.25 and 8.25 of MX, where widths are whole panels.
TEST(CacheInBlocks, Bytes) {
  const CacheShape v1{.k_heads = 2, .k_width = 128, .v_heads = 1, .v_width = 256};
  const auto bits = [&](const Format& format) {
    return CacheBytes(v1, {.k = InBlocks(format), .v = InBlocks(format)}, 64) * 8 / (64 * 512);
  };
  EXPECT_EQ(bits(Format::kNvFp4), 4.5);
  EXPECT_EQ(bits(Format::kNvInt4), 4.5);
  EXPECT_EQ(bits(Format::kMxFp4), 4.25);
  EXPECT_EQ(bits(Format::kMxFp8E4M3), 8.25);
}

// However a prompt is cut, and where tokens move.
TEST(CacheInBlocks, CodesAreOfTheTokenAlone) {
  const Tokens tokens{kShape, kTokens};
  for (const Format::Base format : kFormatsInBlocks) {
    const CacheRules rules{.k = InBlocks(format), .v = InBlocks(format)};
    KvCache whole(kShape, rules), parts(kShape, rules);
    tokens.AppendTo(whole, 0, kTokens);
    for (int64_t at = 0, n = 1; at < kTokens; at += n, n = std::min<int64_t>(3 * n, kTokens - at))
      tokens.AppendTo(parts, at, std::min(at + n, kTokens));
    EXPECT_EQ(Rows(whole), Rows(parts)) << Name(format);
    std::vector<int64_t> places;
    for (int64_t t = 1; t < kTokens; t += 3) places.push_back(t);
    const std::vector<float> before = Rows(whole);
    whole.Keep(std::vector<std::vector<int64_t>>(2, places), std::vector<std::vector<int64_t>>(1, places));
    const std::vector<float> after = Rows(whole);
    for (size_t i = 0; i < places.size(); ++i)
      EXPECT_TRUE(
          std::equal(after.begin() + kRow * i, after.begin() + kRow * (i + 1), before.begin() + kRow * places[i]))
          << Name(format) << " " << i;
  }
}

// 448 scales of 6 or of 7, of rotated values less by the root of their width; scales of MX reach as far as f32.
TEST(CacheInBlocks, ValuesThatE4M3DoesNotReachAreRefused) {
  Tokens tokens{kShape, kTokens};
  KvCache cache(kShape, {.k = {Format::kNvInt4, {Kind::kGroup, 16}, RotatedRuns{}}, .v = InBlocks(Format::kNvFp4)});
  tokens.v[5] = 2688;
  tokens.AppendTo(cache, 0, 3);
  EXPECT_EQ(Rows(cache)[80 + 5], 2688);
  tokens.v[5] = 2689;
  EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 0, 3); }),
              ThrowsMessage<Error>("cache, v: token 0, head 0: got values up to 2689, expected at most 2688 for E4M3 "
                                   "scales; try mxfp8e4m3"));
  tokens.k[80] = 500;
  EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 1, 2); }), ThrowsMessage<Error>(HasSubstr("expected at most 495.8")));
  KvCache mx(kShape, {.k = InBlocks(Format::kMxFp4), .v = InBlocks(Format::kMxFp8E5M2)});
  tokens.k[80] = 0x1p100f, tokens.v[5] = -0x1p100f;
  tokens.AppendTo(mx, 0, 3);
  EXPECT_EQ(Rows(mx)[kRow], 0x1p100f);
}

TEST(CacheInBlocks, OtherBlocksAreRefused) {
  const auto refused = [](const CacheRules& rules, const char* message) {
    EXPECT_THAT(Call([&] { KvCache(kShape, rules); }), ThrowsMessage<Error>(message));
  };
  refused({.k = {Format::kNvFp4}}, "cache, k: got a scale per token, expected group16, the blocks of nvfp4");
  refused({.v = {Format::kMxFp4, {Kind::kGroup, 64}}},
          "cache, v: got a scale per group64, expected group32, the blocks of mxfp4");
  for (const char* name : {"mxint8", "mxfp6e2m3", "nvfp4:256", "nvfp4:4over6"})
    EXPECT_THAT(Call([&] { KvCache(kShape, {.k = InBlocks(*ParseFormat(name))}); }),
                ThrowsMessage<Error>(HasSubstr("mxfp8e5m2, nvfp4, nvint4 or a list of at most 16 values")));
}

TEST(DecodeInBlocks, EveryFormatAndFamily) {
  for (const Format::Base format : kFormatsInBlocks) {
    for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
      const CacheRule blocks = InBlocks(format), token{Format::kInt4};
      CacheRule rotated = blocks;
      rotated.hadamard = RotatedRuns{8};
      for (const CacheRules& rules :
           {CacheRules{.k = blocks, .v = blocks}, CacheRules{.k = token, .v = rotated},
            CacheRules{.k = rotated, .v = token, .first = 35, .last = 20}, CacheRules{.k = blocks, .first = 3}}) {
        for (const int d : {40, 16}) {
          if (kSlow && d == 16) continue;
          RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 3, .keys = 200, .d = d, .v_width = 80},
                         rules);
          c.Run();
          EXPECT_LT(WorstRow(c), 1) << Name(format) << " " << static_cast<int>(family) << " " << d;
          const bool codes = IsInteger(rules.k.format) || IsInteger(rules.v.format);
          EXPECT_LT(WorstRow(c, &DecodeTruth::magnitudes), codes ? 1 : 1e-5) << Name(format) << " " << d;
        }
      }
    }
  }
}

TEST(DecodeInBlocks, EveryInstructionSetIsRightAndAnyNumberOfThreadsGivesTheSameBits) {
  for (const Format::Base format : kFormatsInBlocks) {
    RandomDecode c({.queries = 2, .keys = 385, .d = 48, .v_width = 96}, {.k = InBlocks(format), .v = InBlocks(format)});
    OnEachTarget(kAllTargets, [&] {
      c.Run();
      EXPECT_LT(WorstRow(c, &DecodeTruth::magnitudes), 1e-5) << Name(format);
    });
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      SetThreads(threads);
      if (first.empty()) first = c.Run();
      EXPECT_EQ(c.Run(), first) << Name(format);
    }
    SetThreads(0);
  }
}

TEST(DecodeInBlocks, KeysBeforeRotaryAndForks) {
  for (const KeptKeys keys : {KeptKeys::kBeforeRotary, KeptKeys::kAfterRotary}) {
    const CacheRules rules{.k = InBlocks(Format::kNvFp4), .v = InBlocks(Format::kMxFp4), .keys = keys};
    RandomDecode c({.family = HeadKind::kV1, .heads = 4, .kv = 2, .queries = 1, .keys = 150, .d = 24}, rules);
    const KvCache fork = c.cache;
    c.cache.Truncate(80);
    c.Run();
    EXPECT_LT(WorstRow(c), 1);
    c.cache = fork;
    c.Run();
    EXPECT_LT(WorstRow(c), 1);
  }
}

}  // namespace
}  // namespace tare::cache_in_blocks_test
