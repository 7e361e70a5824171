// SPDX-License-Identifier: Apache-2.0
// Decoding against the double reference over the same cache, within kDecodeBound; f32 alone within
// 1e-5 of ||P1 V|| + lambda ||P2 V||, and so what is decoded to f32.
#include "kernels/decode/decode_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/each_target.h"
#include "tests/support/emulated.h"
#include "tests/support/random_decode.h"

namespace tare::decode_attention_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr CacheRules kInt4{.k = {Format::kInt4}, .v = {Format::kInt4}};
constexpr CacheRules kInt8{.k = {Format::kInt8}, .v = {Format::kInt8}};
constexpr Granularity kChannel = {Granularity::Kind::kChannel};
// As KIVI has keys and values.
constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin),
                 kZero = WithRange(Format::kInt3, CodeRange::kZero);
constexpr CacheRules kKivi{.k = {kTwoBits, kChannel}, .v = {kTwoBits}};

void ExpectRight(RandomDecode& c, const std::string& what) {
  std::ranges::fill(c.tensors.out, 99.0f);
  c.Run();
  EXPECT_LT(WorstRow(c), 1) << what;
  const bool codes = IsInteger(c.cache.rules().k.format) || IsInteger(c.cache.rules().v.format);
  EXPECT_LT(WorstRow(c, &DecodeTruth::magnitudes), codes ? 1 : 1e-5) << what;
}

TEST(DecodeAttention, EveryFormatOfKeysAndValues) {
  for (const Format& k : kCachedFormats) {
    for (const Format& v : kCachedFormats) {
      RandomDecode c({.queries = 1, .keys = 150, .d = 24, .v_width = 80}, {.k = {k}, .v = {v}});
      ExpectRight(c, Formatted("{} {}", Name(k), Name(v)));
    }
  }
}

TEST(DecodeAttention, EveryFamilyLengthAndNumberOfQueries) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    for (const int kv : {4, 1, 2}) {
      for (const int64_t keys : {1, 63, 64, 65, 700}) {
        const int64_t queries = std::min<int64_t>(keys, kv);
        RandomDecode c({.family = family, .heads = 4, .kv = kv, .queries = queries, .keys = keys}, kInt4);
        ExpectRight(c,
                    std::to_string(static_cast<int>(family)) + " " + std::to_string(kv) + " " + std::to_string(keys));
      }
    }
  }
}

TEST(DecodeAttention, ScalesPerChannelAndRotation) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder, HeadKind::kV2}) {
    if (kSlow && family != HeadKind::kDiffLlamaOrder) continue;  // pages are the same, and the test above has them all
    for (const Format& format :
         std::vector<Format>{Format::kInt8, Format::kInt4, kTwoBits, kZero, Format::kFp8E4M3, Format::kNormal3}) {
      const CacheRule channel{.format = format, .granularity = {Granularity::Kind::kChannel}}, token{format};
      for (CacheRules rules : {CacheRules{.k = channel, .v = token}, CacheRules{.k = token, .v = channel},
                               CacheRules{.k = channel, .v = channel, .first = 3, .last = 20}}) {
        for (const auto& rotated : {std::optional<RotatedRuns>(), std::optional(RotatedRuns{})}) {
          rules.k.hadamard = rules.v.hadamard = rotated;
          for (const int64_t keys : {1, 65, 200}) {
            const int64_t queries = std::min<int64_t>(keys, 3);
            RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = queries, .keys = keys, .v_width = 80},
                           rules);
            ExpectRight(c, Formatted("family {}, {} {} {}", static_cast<int>(family), Name(format),
                                     rotated ? "rotated" : "", keys));
          }
        }
      }
    }
  }
}

// Tokens that were moved bring their minima along.
TEST(DecodeAttention, KeptTokensWithMinima) {
  for (const CacheRules& rules :
       {CacheRules{.k = {kTwoBits}, .v = {kZero}}, CacheRules{.k = {kZero}, .v = {kTwoBits}, .first = 2, .last = 5}}) {
    RandomDecode c({.family = HeadKind::kV1, .heads = 4, .kv = 2, .queries = 3, .keys = 200, .v_width = 80}, rules);
    std::vector<int64_t> places{0, 1};
    for (int64_t t = 2; t < 200; t += t < 190 ? 2 : 1) places.push_back(t);
    const CacheShape shape = c.cache.shape();
    c.cache.Keep(std::vector(static_cast<size_t>(shape.k_heads), places),
                 std::vector(static_cast<size_t>(shape.v_heads), places));
    ASSERT_EQ(c.cache.tokens(), std::ssize(places));
    ExpectRight(c, Name(rules.k.format));
  }
}

TEST(DecodeAttention, KeysBeforeRotary) {
  const CacheRule channel{.format = Format::kInt4, .granularity = {Granularity::Kind::kChannel}};
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kDiffLlamaOrder}) {
    for (CacheRules rules : {CacheRules{.k = channel, .v = {Format::kInt4}}, CacheRules{.k = {Format::kInt8}}, kKivi,
                             CacheRules{.k = channel, .v = channel, .first = 3, .last = 20}}) {
      for (const auto& rotated : {std::optional<RotatedRuns>(), std::optional(RotatedRuns{8})}) {
        rules.keys = KeptKeys::kBeforeRotary;
        rules.k.hadamard = rotated;
        RandomDecode c({.family = family, .heads = 4, .kv = 2, .queries = 3, .keys = 150, .d = 24}, rules);
        ExpectRight(c, Formatted("family {}, {}", static_cast<int>(family), rotated ? "rotated" : ""));
      }
    }
  }
}

TEST(DecodeAttention, SkippedPagesWeighAtMostTheThreshold) {
  const auto decode = [](float skip) {
    auto c = std::make_unique<RandomDecode>(
        AttentionShape{.family = HeadKind::kV1, .heads = 2, .kv = 2, .queries = 1, .keys = 1000, .d = 32}, kInt8, 1,
        skip);
    for (float& x : c->tensors.q) x *= 12;  // logits of some twelve: most pages weigh little
    c->Run();
    return c;
  };
  // Rows of V are about as long as the output of maps so sharp, and a difference has 1 + lambda at most.
  const auto all = decode(0), few = decode(1e-7f), some = decode(0.005f), most = decode(0.2f);
  const auto worst = [](const auto& c) { return WorstRow(*c, &DecodeTruth::magnitudes); };
  EXPECT_LT(WorstRow(*all), 1);
  EXPECT_LT(worst(few), worst(all) + 16 * 1e-7 * 2);
  EXPECT_NE(some->tensors.out, all->tensors.out);
  EXPECT_LT(worst(some), 16 * 0.005 * 2);
  EXPECT_GT(worst(most), worst(some));
}

// What is skipped is decided on the difference, not on its maps: equal ones, and lambda = 1, leave nothing of any page.
TEST(DecodeAttention, PagesWithoutADifferenceAreSkipped) {
  RandomDecode equal({.family = HeadKind::kV2, .heads = 1, .kv = 1, .queries = 1, .keys = 200, .d = 16}, kInt4);
  std::copy_n(equal.tensors.problem.q.Row(0, 0), 16, const_cast<float*>(equal.tensors.problem.q.Row(0, 1)));
  equal.tensors.lambda[0] = 1;
  const DecodeSequence s = equal.sequence();
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(equal.table, {&s, 1}));
  const ValuePages values = DecodeAttention(equal.table, {&s, 1}, workspace.span());
  EXPECT_EQ(values.all, 4);
  EXPECT_EQ(values.skipped, 4);
  EXPECT_THAT(equal.tensors.out, Each(0.0f));
}

TEST(DecodeAttention, WindowsAndTokensInF32) {
  for (const int64_t window : {1, 30, 64, 129, 1000}) {
    for (const int64_t last : {0, 1, 50, 200}) {
      const Mask mask{.kind = Mask::Kind::kWindow, .window = window};
      RandomDecode c({.queries = 3, .keys = 300, .mask = mask},
                     {.k = {Format::kInt4}, .v = {Format::kInt8}, .first = last / 10, .last = last});
      ExpectRight(c, std::to_string(window) + " " + std::to_string(last));
    }
  }
}

TEST(DecodeAttention, EveryInstructionSetGivesTheSameBitsOverCodes) {
  for (const CacheRules& rules : {CacheRules{.k = {Format::kInt6}, .v = {Format::kInt4}}, kKivi,
                                  CacheRules{.k = {Format::kInt3}, .v = {kTwoBits, kChannel}}}) {
    // Beside scales per channel the last page is f32, whose bits differ: of 385 tokens the last alone, which none sees.
    RandomDecode c({.queries = 1, .keys = 385, .d = 48, .v_width = 64}, rules);
    std::vector<float> first;
    OnEachTarget(kAllTargets, [&] {
      DecodeSequence s = c.sequence();
      s.newer = 1;
      AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
      DecodeAttention(c.table, {&s, 1}, workspace.span());
      if (first.empty()) first = c.tensors.out;
      EXPECT_EQ(c.tensors.out, first);
    });
    ExpectRight(c, "every instruction set");
  }
}

TEST(DecodeAttention, AnyNumberOfThreadsGivesTheSameBits) {
  for (const CacheRules& cache : {kInt8, CacheRules{}, kKivi}) {
    RandomDecode c({.heads = 3, .kv = 3, .queries = 2, .keys = 1200}, cache);
    SetThreads(1);
    const std::vector<float> one = c.Run();
    for (const int threads : {2, 5}) {
      SetThreads(threads);
      EXPECT_EQ(c.Run(), one);
    }
    SetThreads(0);
  }
}

TEST(DecodeAttention, SequencesOfABatchAreAsByThemselves) {
  RandomDecode a({.queries = 1, .keys = 1100}, kInt4), b({.queries = 2, .keys = 70}, kInt4, 2),
      empty({.queries = 2, .keys = 5}, kInt8, 3);
  empty.cache.Truncate(0);
  const std::vector<float> alone[] = {a.Run(), b.Run()};
  for (RandomDecode* c : {&a, &b, &empty}) std::ranges::fill(c->tensors.out, 99.0f);
  const DecodeSequence batch[] = {a.sequence(), empty.sequence(), b.sequence()};
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(a.table, batch));
  DecodeAttention(a.table, batch, workspace.span());
  EXPECT_EQ(a.tensors.out, alone[0]);
  EXPECT_EQ(b.tensors.out, alone[1]);
  EXPECT_THAT(empty.tensors.out, Each(0.0f));
}

TEST(DecodeAttention, AForkDecodesAsAnUnsharedCache) {
  for (const CacheRules& rules : {kInt4, kKivi}) {
    RandomDecode c({.queries = 1, .keys = 130}, rules), straight({.queries = 1, .keys = 131}, rules, 9);
    straight.cache = c.cache;  // a fork, which grows
    const auto& p = straight.tensors.problem;
    const auto next = [](HeadsView<const float> x) {
      x.data = x.Row(130, 0), x.tokens = 1;
      return x;
    };
    straight.cache.Append(next(p.k), next(p.v));
    ExpectRight(straight, "fork");
    ExpectRight(c, "what it was forked from");
  }
}

TEST(DecodeAttention, QueriesBeforeTheFirstKeySeeNothing) {
  RandomDecode c({.queries = 3, .keys = 3}, kInt4);
  c.cache.Truncate(1);
  c.Run();
  const size_t row = c.table.heads() * c.table.out_width();
  EXPECT_THAT(std::span(c.tensors.out).first(2 * row), Each(0.0f));
  EXPECT_LT(WorstRow(c), 1);
}

// A sink that takes all of a page's codes but its own, logits of thousands, values of a page that are all 0.
TEST(DecodeAttention, LogitsFarApart) {
  for (const float factor : {30.0f, 3000.0f, 1e-30f}) {
    RandomDecode c({.queries = 1, .keys = 200}, kInt8);
    for (float& x : c.tensors.q) x *= factor;
    c.Run();
    EXPECT_LT(WorstRow(c), 1);
  }
  RandomDecode c({.queries = 1, .keys = 200}, kInt4);
  std::ranges::fill(c.tensors.v, 0.0f);
  c.cache.Truncate(0);
  c.cache.Append(c.tensors.problem.k, c.tensors.problem.v);
  EXPECT_THAT(c.Run(), Each(0.0f));
}

// Any shape, tail, window and place of f32 tokens, rows off every boundary, sinks, zeros and sharp maps. Errors of a
// logit grow with it, and a probability's with a logit's.
TEST(DecodeAttention, AnyShape) {
  std::mt19937 random(11);
  const auto any = [&](auto... values) {
    const int64_t list[] = {values...};
    return list[random() % std::size(list)];
  };
  for (int i = 0; i < (kSlow ? 60 : 250); ++i) {
    AttentionShape shape{.family = static_cast<HeadKind>(random() % 4)};
    shape.kv = static_cast<int>(any(1, 2));
    shape.heads = shape.kv * static_cast<int>(any(1, 2, 4));
    shape.keys = any(1, 2, 15, 63, 64, 65, 127, 128, 129, 511, 512, 513, 640, 1100);
    shape.queries = std::min<int64_t>(shape.keys, any(1, 1, 2, 5, 16));
    shape.d = static_cast<int>(any(1, 8, 15, 16, 17, 40, 128));
    // A row of few columns can cancel, and its magnitude then says nothing.
    shape.v_width = static_cast<int>(any(16, 63, 64, 65, 130));
    shape.pad = static_cast<int>(any(0, 1, 3));
    if (random() % 3 == 0) shape.mask = {.kind = Mask::Kind::kWindow, .window = any(1, 17, 64, 200)};
    CacheRules rules{.k = {kCachedFormats[random() % std::size(kCachedFormats)]},
                     .v = {kCachedFormats[random() % std::size(kCachedFormats)]}};
    for (CacheRule* rule : {&rules.k, &rules.v})
      if (random() % 4 == 0) rule->granularity = kChannel;
    rules.first = any(0, 0, 1, 64, 70);
    rules.last = any(0, 0, 1, 33, 100);
    RandomDecode c(shape, rules, static_cast<unsigned>(i));
    const auto scale = [](HeadsView<const float> x, int64_t token, float factor) {
      for (int h = 0; h < x.heads; ++h)
        for (int j = 0; j < x.width; ++j) const_cast<float*>(x.Row(token, h))[j] *= factor;
    };
    const AttentionProblem& p = c.tensors.problem;
    switch (random() % 5) {
      case 0:  // a sink, of which values are small
        scale(p.k, 0, 4), scale(p.v, 0, 0.3f);
        break;
      case 1:  // zeros
        for (int64_t t = 0; t < shape.keys; t += 2) scale(p.k, t, 0), scale(p.v, t, 0);
        break;
      case 2:  // sharp maps
        for (int64_t t = 0; t < shape.queries; ++t) scale(p.q, t, 3);
        break;
      default:
        break;
    }
    c.cache.Truncate(0);
    c.cache.Append(p.k, p.v);
    ExpectRight(c, Formatted("{}: family {}, {} keys, d {}, {} {}", i, static_cast<int>(shape.family), shape.keys,
                             shape.d, Name(rules.k.format), Name(rules.v.format)));
  }
}

// 16 MiB of exponentials hold 33 of these queries at once: rounds of them are right, and as many calls.
TEST(DecodeAttention, ManyQueriesAreTakenInRounds) {
  constexpr int64_t kKeys = 2000, kQueries = kSlow ? 40 : 70;
  RandomDecode c(
      {.family = HeadKind::kV2, .heads = 32, .kv = 1, .queries = kQueries, .keys = kKeys, .d = 8, .v_width = 16}, {});
  const DecodeSequence whole = c.sequence();
  ASSERT_GT(int64_t{2 * 32} * 2048 * kQueries * 4, int64_t{16} << 20);
  EXPECT_LT(DecodeWorkspaceBytes(c.table, {&whole, 1}), size_t{40} << 20);
  ExpectRight(c, "rounds");
  // A window of queries by itself: `newer` says how many came after it.
  DecodeSequence some = whole;
  some.q.data += 3 * some.q.token_stride, some.q.tokens = 2;
  some.lambda.data += 3 * some.lambda.token_stride;
  std::vector<float> out(2 * 32 * 16);
  some.out = DenseHeads(out.data(), 2, 32, 16);
  some.newer = kQueries - 5;
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&some, 1}));
  DecodeAttention(c.table, {&some, 1}, workspace.span());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], c.tensors.out[3 * 32 * 16 + i], 1e-5);
  const DecodeTruth truth = ReferenceDecode(c.tensors.heads[0], 0, c.table.scale(), 0, some);
  for (int i = 0; i < 16; ++i) EXPECT_NEAR(out[i], truth.out[i], 1e-5);
}

// Exponentials of a query: 4 bytes of every key and map, and little else.
TEST(DecodeAttention, MemoryGrowsByTheExponentials) {
  RandomDecode small({.queries = 1, .keys = 64 * 8 * 16}, kInt4), large({.queries = 1, .keys = 64 * 9 * 16}, kInt4);
  const DecodeSequence a = small.sequence(), b = large.sequence();
  const size_t of_small = DecodeWorkspaceBytes(small.table, {&a, 1}),
               of_large = DecodeWorkspaceBytes(large.table, {&b, 1});
  const size_t kept = 4 * static_cast<size_t>(small.table.rows()) * 64 * 16;
  EXPECT_GE(of_large - of_small, kept);
  EXPECT_LE(of_large - of_small, kept + 16 * (3 * 2 * 16 * 4));  // and maxima and sums of 16 pages' three parts
}

TEST(DecodeAttention, BadInputIsNamedAndNothingIsWritten) {
  RandomDecode c({.queries = 2, .keys = 70}, kInt4);
  const auto refused = [&](DecodeSequence s, const char* message) {
    const DecodeSequence valid = c.sequence();
    AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&valid, 1}));
    EXPECT_THAT(Call([&] { DecodeAttention(c.table, {&s, 1}, workspace.span()); }),
                ThrowsMessage<Error>(HasSubstr(message)));
  };
  std::ranges::fill(c.tensors.out, 99.0f);
  DecodeSequence s = c.sequence();
  s.lambda.data = nullptr;
  refused(s, "two maps, but no lambda");
  s = c.sequence();
  s.q.heads = 3;
  refused(s, "q: got 2 tokens of 3 heads of width 16, expected 2 of 4 of width 16");
  s = c.sequence();
  s.out.width = 31;
  refused(s, "out: got 2 tokens of 2 heads of width 31");
  s = c.sequence();
  s.newer = 71;
  refused(s, "got 71 newer tokens, expected 0 to the cache's 70");
  const KvCache other({.k_heads = 1, .k_width = 16, .v_heads = 1, .v_width = 32}, kInt4);
  s = c.sequence();
  s.cache = &other;
  refused(s, "got a cache of 1 heads of k");
  c.tensors.q[16 * 5 + 3] = std::numeric_limits<float>::quiet_NaN();
  refused(c.sequence(), "sequence 0, q: token 1, head 1: got NaN or infinity");
  c.tensors.q[16 * 5 + 3] = 0;
  s = c.sequence();
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&s, 1}));
  EXPECT_THAT(Call([&] { DecodeAttention(c.table, {&s, 1}, workspace.span().subspan(64)); }),
              ThrowsMessage<Error>(HasSubstr("workspace")));
  EXPECT_THAT(c.tensors.out, Each(99.0f));
}

}  // namespace
}  // namespace tare::decode_attention_test
