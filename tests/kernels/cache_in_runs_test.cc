// SPDX-License-Identifier: Apache-2.0
// Caches with scales of runs, keys per channel over blocks of tokens and values per token over groups of channels
// (KIVI, arXiv 2402.02750): what they hold, how they are cut, and decoding over them against the double reference. The
// bounds of decoding are those of tests/kernels/decode/decode_attention_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/support/cache_tokens.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/emulated.h"
#include "tests/support/random_decode.h"
#include "tests/support/random_quantized.h"
#include "tests/support/ranged_integers.h"

namespace tare::cache_in_runs_test {
namespace {

using cache_tokens::Rows;
using cache_tokens::Tokens;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = Granularity::Kind;

constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin),
                 kThreeBits = WithRange(Format::kInt3, CodeRange::kZero);
constexpr Granularity kBlock = {Kind::kBlockChannel, 32}, kGroup = {Kind::kGroup, 32};
constexpr CacheRules kKivi{.k = {kTwoBits, kBlock}, .v = {kTwoBits, kGroup}};
constexpr CacheShape kShape{.k_heads = 2, .k_width = 16, .v_heads = 1, .v_width = 48};
constexpr int64_t kTokens = 200;

// Integers of every width and range, FP8 and lists.
std::vector<Format> Formats() {
  std::vector<Format> formats = RangedIntegers();
  formats.insert(formats.end(), std::begin(kSignedIntegers), std::end(kSignedIntegers));
  formats.insert(formats.end(),
                 {Format::kFp8E4M3, Format::kFp8E5M2, Format::kNormal4, WithRange(Format::kNormal3, CodeRange::kMean)});
  return formats;
}

// Values that share a scale, as they came and as they are read.
struct Shared {
  std::vector<float> came, read;
};

// Values are half a step off; `steps` steps reach over the range, as in panel.h.
void ExpectHalfAStepOff(const Shared& group, bool has_zero, int steps) {
  double low = std::ranges::min(group.came), high = std::ranges::max(group.came);
  if (has_zero) low = std::min(low, 0.0), high = std::max(high, 0.0);
  const double below = has_zero ? 0 : 0x1p-10 * std::abs(low), step = (1 + 0x1p-10) * (high - low + below) / steps;
  for (size_t i = 0; i < group.came.size(); ++i) EXPECT_NEAR(group.read[i], group.came[i], 0.501 * step);
}

// A scale of more than the block or the group would err by more: blocks lie ten apart, groups differ by ten times.
TEST(CacheInRuns, ValuesAreHalfAStepOfTheirRunOff) {
  Tokens tokens{kShape, kTokens};
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int c = 0; c < 32; ++c) tokens.k[t * 32 + c] += c == 3 ? 100 : t % 64 < 32 ? 5 : -5;
    for (int c = 32; c < 48; ++c) tokens.v[t * 48 + c] *= 10;
  }
  KvCache cache(kShape, {.k = {kTwoBits, kBlock}, .v = {kThreeBits, kGroup}});
  tokens.AppendTo(cache, 0, kTokens);
  const std::vector<float> rows = Rows(cache);
  for (int64_t first = 0; first < 192; first += 32) {
    for (int c = 0; c < 32; ++c) {
      Shared group;
      for (int64_t t = first; t < first + 32; ++t)
        group.came.push_back(tokens.k[t * 32 + c]), group.read.push_back(rows[t * 80 + c]);
      ExpectHalfAStepOff(group, false, 3);
    }
  }
  for (int64_t t = 0; t < 192; ++t) {
    for (const int first : {0, 32}) {
      Shared group;
      for (int c = first; c < std::min(first + 32, 48); ++c)
        group.came.push_back(tokens.v[t * 48 + c]), group.read.push_back(rows[t * 80 + 32 + c]);
      ExpectHalfAStepOff(group, true, 7);
    }
  }
}

// However a prompt is cut, and whole in f32 until the page is followed: a block alone is not rounded.
TEST(CacheInRuns, CodesDoNotDependOnTheChunksOfThePrompt) {
  const Tokens tokens{kShape, kTokens};
  for (const CacheRules& rules : {kKivi, CacheRules{.v = kKivi.v, .first = 1, .last = 9}, CacheRules{.k = kKivi.k}}) {
    KvCache whole(kShape, rules), parts(kShape, rules), single(kShape, rules);
    tokens.AppendTo(whole, 0, kTokens);
    int64_t at = 0;
    for (const int64_t n : {1, 31, 2, 0, 64, 102}) tokens.AppendTo(parts, at, at + n), at += n;
    ASSERT_EQ(at, kTokens);
    for (int64_t t = 0; t < kTokens; ++t) {
      tokens.AppendTo(single, t, t + 1);
      if (rules.last == 0) {
        EXPECT_EQ(static_cast<double>(single.Bytes()), CacheBytes(kShape, rules, t + 1)) << t;
      }
      std::vector<float> key(16);
      single.ReadKey(t / 64 * 64, 0, key.data());
      EXPECT_TRUE(std::equal(key.begin(), key.end(), tokens.k.begin() + t / 64 * 64 * 32)) << t;
    }
    EXPECT_EQ(Rows(whole), Rows(parts));
    EXPECT_EQ(Rows(whole), Rows(single));
  }
}

// 128 tokens: a page of codes, of three bits a value with scales and minima, and one in f32.
TEST(CacheInRuns, Bytes) {
  const CacheShape v1{.k_heads = 2, .k_width = 128, .v_heads = 1, .v_width = 256};
  EXPECT_EQ(CacheBytes(v1, kKivi, 128), 64 * 512 * 3 / 8 + 64 * 512 * 4);
  EXPECT_EQ(CacheBytes(v1, {.v = {Format::kInt4, {Kind::kGroup, 64}}}, 64), 64 * 256 * 4 + 64 * 256 * (4 + 0.25) / 8);
}

// A cut in the middle of a block: what was rounded stays, what follows is rounded with it, and a fork sees neither.
TEST(CacheInRuns, ACutPageIsReadBack) {
  const Tokens tokens{kShape, kTokens};
  KvCache cache(kShape, kKivi);
  tokens.AppendTo(cache, 0, kTokens);
  std::vector<float> cut = Rows(cache);
  cut.resize(80 * 80);
  cache.Truncate(80);
  KvCache fork = cache;
  EXPECT_EQ(Rows(cache), cut);
  tokens.AppendTo(cache, 80, 90);
  std::vector<float> grown = Rows(cache);
  EXPECT_TRUE(std::equal(grown.begin() + 85 * 80, grown.begin() + 85 * 80 + 32, tokens.k.begin() + 85 * 32));
  grown.resize(cut.size());
  EXPECT_EQ(grown, cut);
  tokens.AppendTo(cache, 90, 140);
  EXPECT_FALSE(std::equal(tokens.k.begin() + 85 * 32, tokens.k.begin() + 86 * 32, Rows(cache).begin() + 85 * 80));
  EXPECT_EQ(Rows(fork), cut);
}

// Values in groups move as they are; keys in blocks do not.
TEST(CacheInRuns, KeepingTokens) {
  const Tokens tokens{kShape, kTokens};
  std::vector<int64_t> places;
  for (int64_t t = 0; t < kTokens; t += 3) places.push_back(t);
  const std::vector<std::vector<int64_t>> of_k(2, places), of_v(1, places);
  KvCache moved(kShape, {.k = {kThreeBits}, .v = kKivi.v}), still(kShape, kKivi);
  tokens.AppendTo(moved, 0, kTokens);
  tokens.AppendTo(still, 0, kTokens);
  const std::vector<float> before = Rows(moved);
  moved.Keep(of_k, of_v);
  const std::vector<float> after = Rows(moved);
  for (size_t i = 0; i < places.size(); ++i)
    EXPECT_TRUE(std::equal(after.begin() + 80 * i, after.begin() + 80 * (i + 1), before.begin() + 80 * places[i]));
  EXPECT_THAT(Call([&] { still.Keep(of_k, of_v); }),
              ThrowsMessage<Error>("cache, keep: got scales per channel, expected one per token"));
}

TEST(CacheInRuns, OtherRunsAreRefused) {
  const auto refused = [](const CacheRules& rules, const char* message) {
    EXPECT_THAT(Call([&] { KvCache(kShape, rules); }), ThrowsMessage<Error>(message));
  };
  refused({.k = {Format::kInt4, {Kind::kBlockChannel, 16}}},
          "cache, k: got a scale per block16.channel, expected token, channel, block32.channel or block64.channel");
  refused({.k = {Format::kInt4, kGroup}},
          "cache, k: got a scale per group32, expected token, channel, block32.channel or block64.channel");
  refused({.v = {Format::kInt4, kBlock}},
          "cache, v: got a scale per block32.channel, expected token, channel, group32 or group64");
  refused({.v = {Format::kInt4, {Kind::kGroup, 128}}},
          "cache, v: got a scale per group128, expected token, channel, group32 or group64");
  KvCache(kShape, {.k = {Format::kF32, {Kind::kTensor}}, .v = {Format::kBf16, {Kind::kTensor}}});  // no scales
}

// A quarter of what f16 reaches, of rotated values less by the root of their width; tokens in f32 count, too.
TEST(CacheInRuns, ValuesThatF16DoesNotReachAreRefused) {
  for (const Format& format : Formats()) {
    Tokens tokens{kShape, kTokens};
    KvCache cache(kShape, {.k = {format, kBlock, RotatedRuns{}}, .v = {format, kGroup}});
    tokens.v[5] = 16376, tokens.v[6] = -16376;
    tokens.k[7] = 4094, tokens.k[32 + 7] = -4094;
    tokens.AppendTo(cache, 0, 70);
    EXPECT_TRUE(std::ranges::all_of(Rows(cache), [](float x) { return std::isfinite(x); })) << Name(format);
    tokens.v[5] = 16377;
    EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 0, 5); }),
                ThrowsMessage<Error>("cache, v: token 0, head 0: got values up to 16377, expected at most 16376 in "
                                     "blocks and groups, whose scales are f16; try channel or token"));
    tokens.k[16] = -4095;
    EXPECT_THAT(
        Call([&] { tokens.AppendTo(cache, 0, 5); }),
        ThrowsMessage<Error>(HasSubstr("cache, k: token 0, head 1: got values up to 4095, expected at most 4094")));
    tokens.k[16] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 0, 5); }), ThrowsMessage<Error>(HasSubstr("got NaN or infinity")));
    EXPECT_EQ(cache.tokens(), 70);
  }
}

TEST(DecodeInRuns, EveryFormatFamilyAndRun) {
  for (const Format& format : Formats()) {
    for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
      for (const int n : {32, 64}) {
        if (kSlow && n == 64) continue;
        const CacheRule k{format, {Kind::kBlockChannel, n}}, v{format, {Kind::kGroup, n}};
        const CacheRule rotated{format, v.granularity, RotatedRuns{16}}, token{format};
        for (const CacheRules& rules :
             {CacheRules{.k = k, .v = v}, CacheRules{.k = token, .v = rotated},
              CacheRules{.k = k, .v = token, .first = 35, .last = 20}, CacheRules{.v = v, .last = 70}}) {
          RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 3, .keys = 200, .v_width = 80}, rules);
          c.Run();
          EXPECT_LT(WorstRow(c), 1) << Formatted("{} {}, family {}", Name(format), n, static_cast<int>(family));
        }
      }
    }
  }
}

TEST(DecodeInRuns, KeysBeforeRotaryAndForks) {
  CacheRules rules = kKivi;
  for (const KeptKeys keys : {KeptKeys::kBeforeRotary, KeptKeys::kAfterRotary}) {
    rules.keys = keys;
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

// Beside scales of blocks the last page is f32, whose bits differ: of 385 tokens the last alone, which none sees.
TEST(DecodeInRuns, EveryInstructionSetAndAnyNumberOfThreadsGiveTheSameBits) {
  const CacheRules wide{.k = {Format::kInt4, {Kind::kBlockChannel, 64}}, .v = {kThreeBits, {Kind::kGroup, 64}}};
  for (const CacheRules& rules : {kKivi, wide}) {
    RandomDecode c({.queries = 1, .keys = 385, .d = 48, .v_width = 96}, rules);
    DecodeSequence s = c.sequence();
    s.newer = 1;
    std::vector<float> first;
    const auto same = [&] {
      AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
      DecodeAttention(c.table, {&s, 1}, workspace.span());
      if (first.empty()) first = c.tensors.out;
      EXPECT_EQ(c.tensors.out, first);
    };
    OnEachTarget(kAllTargets, same);
    for (const int threads : {1, 2, 5}) {
      SetThreads(threads);
      same();
    }
    SetThreads(0);
  }
}

// Every length, tail, width and place of f32 tokens, with outliers, zeros and offsets.
TEST(DecodeInRuns, AnyShape) {
  std::mt19937 random(12);
  const auto any = [&](auto... values) {
    const int64_t list[] = {values...};
    return list[random() % std::size(list)];
  };
  const std::vector<Format> formats = Formats();
  for (int i = 0; i < 200; ++i) {
    AttentionShape shape{.family = static_cast<HeadKind>(random() % 4)};
    shape.kv = static_cast<int>(any(1, 2));
    shape.heads = shape.kv * static_cast<int>(any(1, 2));
    shape.keys = any(1, 2, 31, 32, 33, 63, 64, 65, 96, 97, 128, 129, 600);
    shape.queries = std::min<int64_t>(shape.keys, any(1, 1, 2, 5));
    shape.d = static_cast<int>(any(1, 8, 16, 17, 40, 128));
    shape.v_width = static_cast<int>(any(16, 31, 32, 33, 64, 65, 130, 256));
    shape.pad = static_cast<int>(any(0, 1));
    if (random() % 4 == 0) shape.mask = {.kind = Mask::Kind::kWindow, .window = any(1, 33, 100)};
    const auto format = [&] { return formats[random() % formats.size()]; };
    CacheRules rules{.k = {format(), {Kind::kBlockChannel, static_cast<int>(any(32, 64))}},
                     .v = {format(), {Kind::kGroup, static_cast<int>(any(32, 64))}}};
    if (random() % 3 == 0) (random() % 2 == 0 ? rules.k : rules.v).granularity = {Kind::kToken};
    rules.first = any(0, 0, 1, 40);
    rules.last = any(0, 0, 1, 33);
    RandomDecode c(shape, rules, static_cast<unsigned>(i));
    const int64_t change = any(0, 1, 2, 3);
    const auto changed = [&](HeadsView<const float> x) {
      for (int64_t t = 0; t < x.tokens; ++t) {
        for (int h = 0; h < x.heads; ++h) {
          auto* row = const_cast<float*>(x.Row(t, h));
          if (change == 1) row[t % x.width] *= 20;
          if (change == 2 && t % 3 > 0) std::fill_n(row, x.width, 0.0f);
          if (change == 3) row[x.width / 2] += 40;
        }
      }
    };
    changed(c.tensors.problem.k), changed(c.tensors.problem.v);
    c.cache.Truncate(0);
    c.cache.Append(c.tensors.problem.k, c.tensors.problem.v);
    if (random() % 2 == 0 && shape.keys > 66) c.cache.Truncate(shape.keys - 1), c.cache.Truncate(shape.keys - 2);
    c.Run();
    ASSERT_LT(WorstRow(c), 1) << i << ": family " << static_cast<int>(shape.family) << ", " << shape.keys << " keys, d "
                              << shape.d << ", " << shape.v_width << " of v, " << Name(rules.k.format) << " "
                              << Name(rules.v.format);
  }
}

}  // namespace
}  // namespace tare::cache_in_runs_test
