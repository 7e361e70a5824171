// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "quant/base/message.h"
#include "tests/support/cache_tokens.h"
#include "tests/support/call.h"

namespace tare::kv_cache_test {
namespace {

using namespace cache_tokens;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Format kTwoBits = WithRange(Format::kInt2, CodeRange::kMin),
                 kThreeBits = WithRange(Format::kInt3, CodeRange::kZero);
// Keys and values as KIVI keeps them.
constexpr CacheRules kKivi{.k = {kTwoBits, {Granularity::Kind::kChannel}}, .v = {kTwoBits}};
constexpr CacheRule kByChannel{.format = Format::kInt4, .granularity = {Granularity::Kind::kChannel}};

bool IsExact(const KvCache& cache, const Tokens& tokens, int64_t t) {
  std::vector<float> row(32);
  cache.ReadValue(t, 0, row.data());
  return std::equal(row.begin(), row.end(), tokens.v.begin() + t * 32);
}

TEST(KvCache, CodesDoNotDependOnTheChunksOfThePrompt) {
  const Tokens tokens;
  for (const CacheRules& rules : {kInt4, kKivi, CacheRules{.k = kByChannel, .v = {Format::kInt8}},
                                  CacheRules{.k = {Format::kInt6}, .v = kByChannel, .first = 2, .last = 70},
                                  CacheRules{.k = {Format::kInt8}, .v = {Format::kBf16}, .first = 3, .last = 70}}) {
    KvCache whole(kShape, rules), parts(kShape, rules), single(kShape, rules);
    tokens.AppendTo(whole, 0, kTokens);
    int64_t at = 0;
    for (const int64_t n : {1, 62, 2, 0, 64, 71}) {
      tokens.AppendTo(parts, at, at + n);
      at += n;
    }
    ASSERT_EQ(at, kTokens);
    for (int64_t t = 0; t < kTokens; ++t) tokens.AppendTo(single, t, t + 1);
    EXPECT_EQ(Rows(whole), Rows(parts));
    EXPECT_EQ(Rows(whole), Rows(single));
    EXPECT_EQ(whole.Bytes(), single.Bytes());
  }
}

TEST(KvCache, FirstAndLastTokensStayAsTheyCame) {
  const Tokens tokens;
  KvCache cache(kShape, {.k = {Format::kInt4}, .v = {Format::kInt4}, .first = 3, .last = 70});
  for (int64_t t = 0; t < kTokens; ++t) {
    tokens.AppendTo(cache, t, t + 1);
    const auto exact = [&](int64_t i) { return IsExact(cache, tokens, i); };
    EXPECT_TRUE(exact(0) && exact(std::min<int64_t>(t, 2)) && exact(std::max<int64_t>(0, t - 69)) && exact(t)) << t;
    EXPECT_FALSE(t >= 73 && (exact(3) || exact(t - 70))) << t;
  }
  // f32 of the first page and the two that the last 70 tokens lie in.
  const int64_t coded = PageLayout(kShape, {Format::kInt4}, {Format::kInt4}).Bytes(),
                plain = PageLayout(kShape, {}, {}).Bytes();
  EXPECT_EQ(cache.Bytes(), static_cast<size_t>(4 * coded + 3 * plain));
}

TEST(KvCache, TruncatingLosesTheF32OfNoTokenThatHasIt) {
  const Tokens tokens;
  KvCache cache(kShape, {.k = {Format::kInt4}, .v = {Format::kInt4}, .last = 10});
  tokens.AppendTo(cache, 0, kTokens);
  cache.Truncate(195);
  EXPECT_TRUE(IsExact(cache, tokens, 190));
  EXPECT_TRUE(IsExact(cache, tokens, 194));
  EXPECT_FALSE(IsExact(cache, tokens, 189));  // among the last ten now, and its f32 is gone
  cache.Truncate(50);
  EXPECT_FALSE(IsExact(cache, tokens, 49));
  tokens.AppendTo(cache, 50, 54);  // in a page that had no f32 left
  EXPECT_TRUE(IsExact(cache, tokens, 50));
  EXPECT_FALSE(IsExact(cache, tokens, 49));
  KvCache direct(kShape, kInt4), again(kShape, kInt4);
  tokens.AppendTo(direct, 0, 100);
  tokens.AppendTo(again, 0, 90);
  again.Truncate(70);
  tokens.AppendTo(again, 70, 100);
  EXPECT_EQ(Rows(direct), Rows(again));
}

// A page of channels' scales is rounded when a token comes after it, and not before.
TEST(KvCache, ByChannelTheLastPageStaysAsItCame) {
  const Tokens tokens;
  const CacheRules rules{.k = kByChannel, .v = {Format::kInt4}};
  KvCache cache(kShape, rules);
  const int64_t coded = PageLayout(kShape, rules.k, rules.v).Bytes(), plain = PageLayout(kShape, {}, {}).Bytes();
  for (int64_t t = 0; t < kTokens; ++t) {
    tokens.AppendTo(cache, t, t + 1);
    const int64_t page = t / 64;
    EXPECT_TRUE(IsExact(cache, tokens, page * 64) && IsExact(cache, tokens, t)) << t;
    EXPECT_FALSE(page > 0 && IsExact(cache, tokens, page * 64 - 1)) << t;
    EXPECT_EQ(cache.Bytes(), static_cast<size_t>(page * coded + plain));
    EXPECT_EQ(static_cast<double>(cache.Bytes()), CacheBytes(kShape, rules, t + 1));
  }
}

// What was rounded stays what it was; what comes after a cut is rounded with what is left of the page.
TEST(KvCache, ByChannelACutPageIsReadBack) {
  const Tokens tokens;
  for (const CacheRules& rules : {CacheRules{.k = kByChannel, .v = kByChannel}, kKivi}) {
    KvCache cache(kShape, rules);
    tokens.AppendTo(cache, 0, kTokens);
    const std::vector<float> before = Rows(cache);
    cache.Truncate(100);
    KvCache fork = cache;
    const std::vector<float> cut(before.begin(), before.begin() + 100 * 64);
    EXPECT_EQ(Rows(cache), cut);
    tokens.AppendTo(cache, 100, 110);
    std::vector<float> grown = Rows(cache);
    EXPECT_TRUE(IsExact(cache, tokens, 105));
    grown.resize(cut.size());
    EXPECT_EQ(grown, cut);
    tokens.AppendTo(cache, 110, 140);  // the page is full and followed
    EXPECT_FALSE(IsExact(cache, tokens, 105));
    EXPECT_EQ(Rows(fork), cut);
    cache.Truncate(128);
    tokens.AppendTo(cache, 128, 129);
    EXPECT_EQ(cache.tokens(), 129);
  }
}

// Each head keeps its own tokens; codes do not change, and tokens in f32 stay in f32.
TEST(KvCache, KeepingMovesTokensAsTheyAre) {
  const Tokens tokens;
  for (const CacheRules& rules :
       {kInt4, CacheRules{.k = {kTwoBits}, .v = {kThreeBits}}, CacheRules{.k = {Format::kInt6}, .v = {Format::kBf16}},
        CacheRules{.k = {Format::kInt8}, .v = {Format::kInt4}, .first = 3, .last = 20}, CacheRules{}}) {
    KvCache cache(kShape, rules);
    tokens.AppendTo(cache, 0, 190);
    const std::vector<float> before = Rows(cache);
    KvCache fork = cache;
    const auto kept = [](int64_t step) {
      std::vector<int64_t> places{0, 1, 2};
      for (int64_t t = 165 - 97 * step; t < 165; t += step) places.push_back(t);
      for (int64_t t = 165; t < 190; ++t) places.push_back(t);
      return places;
    };
    std::vector<int64_t> by_one = kept(1);
    std::vector<int64_t> shifted = by_one;
    for (size_t i = 3; i < 50; ++i) shifted[i] -= 20;
    const std::vector<std::vector<int64_t>> k{by_one, shifted}, v{shifted};
    cache.Keep(k, v);
    ASSERT_EQ(cache.tokens(), std::ssize(by_one));
    const std::vector<float> after = Rows(cache);
    for (int64_t t = 0; t < cache.tokens(); ++t) {
      const auto same = [&](int64_t from, int begin, int width) {
        return std::equal(after.begin() + t * 64 + begin, after.begin() + t * 64 + begin + width,
                          before.begin() + from * 64 + begin);
      };
      EXPECT_TRUE(same(by_one[t], 0, 16) && same(shifted[t], 16, 16) && same(shifted[t], 32, 32)) << t;
    }
    EXPECT_EQ(Rows(fork), before);
    EXPECT_LT(cache.Bytes(), fork.Bytes());
    // What comes after is as if nothing had been dropped.
    tokens.AppendTo(cache, 190, 200);
    tokens.AppendTo(fork, 190, 200);
    const std::vector<float> grown = Rows(cache), whole = Rows(fork);
    EXPECT_TRUE(std::equal(grown.end() - 30 * 64, grown.end(), whole.end() - 30 * 64));
  }
}

TEST(KvCache, ScalesPerChannelAndKeysBeforeRotaryAreNotMoved) {
  const Tokens tokens;
  const auto keep = [&](const CacheRules& rules) {
    KvCache cache(kShape, rules, std::make_shared<const KeyRotary>(std::vector<float>(8, 0.1f), RotaryPairs::kHalves));
    tokens.AppendTo(cache, 0, 10);
    const std::vector<std::vector<int64_t>> k(2, {0, 2}), v(1, {0, 2});
    cache.Keep(k, v);
  };
  EXPECT_THAT(Call([&] { keep({.k = kByChannel}); }), ThrowsMessage<Error>(HasSubstr("got scales per channel")));
  EXPECT_THAT(Call([&] { keep({.keys = KeptKeys::kBeforeRotary}); }),
              ThrowsMessage<Error>(HasSubstr("got keys before rotary")));
  keep({});
}

// Keys come back as they came, but for the rounding of what lies before rotary; without one of their width there is
// none.
TEST(KvCache, KeysBeforeRotaryComeBackTurned) {
  const Tokens tokens;
  const auto rotary = std::make_shared<const KeyRotary>(
      std::vector<float>{1, 0.5f, 0.25f, 0.1f, 0.05f, 0.02f, 0.01f, 0}, RotaryPairs::kNeighbours);
  for (const auto& rotated :
       {std::optional<RotatedRuns>(), std::optional(RotatedRuns{}), std::optional(RotatedRuns{4})}) {
    KvCache exact(kShape, {.k = {.hadamard = rotated}, .keys = KeptKeys::kBeforeRotary}, rotary);
    KvCache codes(kShape,
                  {.k = {Format::kInt8, {Granularity::Kind::kChannel}, rotated}, .keys = KeptKeys::kBeforeRotary},
                  rotary);
    tokens.AppendTo(exact, 0, kTokens);
    tokens.AppendTo(codes, 0, 70);
    tokens.AppendTo(codes, 70, kTokens);
    std::vector<float> key(16), rounded(16);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) {
        exact.ReadKey(t, h, key.data());
        codes.ReadKey(t, h, rounded.data());
        for (int i = 0; i < 16; ++i) {
          EXPECT_NEAR(key[i], tokens.K(t, t + 1).Row(0, h)[i], 1e-5);
          EXPECT_NEAR(rounded[i], key[i], 0.2);  // 5 standard deviations / 127 / 2, of up to four channels' parts
        }
      }
    }
  }
  EXPECT_THAT(Call([] { KvCache(kShape, {.keys = KeptKeys::kBeforeRotary}); }),
              ThrowsMessage<Error>(HasSubstr("got no rotary embedding")));
  const auto narrow = std::make_shared<const KeyRotary>(std::vector<float>{1}, RotaryPairs::kHalves);
  EXPECT_THAT(Call([&] { KvCache(kShape, {.keys = KeptKeys::kBeforeRotary}, narrow); }),
              ThrowsMessage<Error>(HasSubstr("got a rotary embedding of width 2, expected 16")));
}

// Rotated rows come back, but for the rounding of values that are spread more evenly: an outlier costs the others less.
TEST(KvCache, RotationIsUndoneByReading) {
  Tokens tokens;
  for (int64_t t = 0; t < kTokens; ++t) tokens.k[t * 32 + 5] = 40;
  const auto error = [&](const CacheRules& rules) {
    KvCache cache(kShape, rules);
    tokens.AppendTo(cache, 0, kTokens);
    double sum = 0;
    std::vector<float> row(16);
    for (int64_t t = 0; t < kTokens; ++t) {
      cache.ReadKey(t, 0, row.data());
      for (int i = 0; i < 16; ++i) sum += std::pow(row[i] - tokens.k[t * 32 + i], 2);
    }
    return std::sqrt(sum / (16 * kTokens));
  };
  const CacheRule rotated{.format = Format::kInt4, .hadamard = RotatedRuns{}};
  EXPECT_LT(error({.k = {.hadamard = RotatedRuns{}}}), 1e-5);
  const double plain = error({.k = {Format::kInt4}}), spread = error({.k = rotated});
  EXPECT_GT(plain, 0.8);   // a step is 40 / 7: all others become 0
  EXPECT_LT(spread, 0.7);  // steps of some 12 / 7, over sqrt(12)
  EXPECT_THAT(Call([&] { KvCache({.k_heads = 1, .k_width = 9, .v_heads = 1, .v_width = 1}, {.k = rotated}); }),
              ThrowsMessage<Error>(HasSubstr("hadamard: got 9 channels")));
}

TEST(KvCache, ForksShareAndDoNotSeeEachOther) {
  const Tokens tokens;
  KvCache cache(kShape, kInt4);
  tokens.AppendTo(cache, 0, 100);
  const std::vector<float> before = Rows(cache);
  const std::byte* shared = cache.Parts(0)[1].k;
  KvCache fork = cache;
  EXPECT_EQ(fork.Parts(0)[1].k, shared);
  EXPECT_EQ(fork.Parts(1)[1].k, cache.Parts(1)[1].k);
  tokens.AppendTo(fork, 150, 160);
  EXPECT_EQ(fork.Parts(0)[1].k, shared);
  EXPECT_NE(fork.Parts(1)[1].k, cache.Parts(1)[1].k);
  EXPECT_EQ(Rows(cache), before);
  tokens.AppendTo(cache, 100, 110);
  KvCache straight(kShape, kInt4);
  tokens.AppendTo(straight, 0, 110);
  EXPECT_EQ(Rows(cache), Rows(straight));
  {
    const KvCache dropped = std::move(cache);
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), Rows(fork).begin()));
}

// The keys of all pages of one append follow each other, and so do the values: decoding reads straight on.
TEST(KvCache, PagesOfAnAppendLieStraightOn) {
  const Tokens tokens;
  KvCache cache(kShape, kInt4);
  tokens.AppendTo(cache, 0, kTokens);
  const PageLayout layout(kShape, {Format::kInt4}, {Format::kInt4});
  for (int64_t page = 1; page < cache.Pages(); ++page) {
    EXPECT_EQ(cache.Parts(page)[1].k - cache.Parts(page - 1)[1].k, layout.k().Bytes());
    EXPECT_EQ(cache.Parts(page)[1].v - cache.Parts(page - 1)[1].v, layout.v().Bytes());
  }
  EXPECT_EQ(cache.Parts(0)[1].v - cache.Parts(0)[1].k, cache.Pages() * layout.k().Bytes());
}

TEST(KvCache, BytesAreThoseOfItsPages) {
  const Tokens tokens;
  const CacheShape v1{.k_heads = 2, .k_width = 128, .v_heads = 1, .v_width = 256};
  EXPECT_EQ(CacheBytes(v1, kInt4, 64), 64 * (2 * 64 + 128) + 3 * 256);
  EXPECT_EQ(CacheBytes(v1, {}, 65), 2 * 64 * 512 * 4);
  // KIVI's: two bits a value, a scale and a minimum of each channel of keys and of each token of values; and a page of
  // f32.
  EXPECT_EQ(CacheBytes(v1, kKivi, 128), 64 * 512 / 4 + 256 * 8 + 64 * 8 + 64 * 512 * 4);
  EXPECT_EQ(CacheBytes(v1, {.v = {Format::kInt3}}, 64), 64 * 256 * 4 + 64 * 256 * 3 / 8 + 256);
  for (const CacheRules& rules :
       {kInt4, kKivi, CacheRules{.k = {Format::kInt6}, .v = {Format::kF32}}, CacheRules{.k = {kThreeBits}}}) {
    KvCache cache(kShape, rules);
    EXPECT_EQ(cache.Bytes(), 0u);
    tokens.AppendTo(cache, 0, kTokens);
    EXPECT_EQ(static_cast<double>(cache.Bytes()), CacheBytes(kShape, rules, kTokens));
  }
}

// As far as f32 reaches, through all that a value may grow by until it is rounded: sqrt 16 when rotated, sqrt 2 when
// turned back, 4 beside minima.
TEST(KvCache, ValuesThatWouldNotStayFiniteAreRefused) {
  const auto rotary = std::make_shared<const KeyRotary>(std::vector<float>(8, 0.1f), RotaryPairs::kHalves);
  const CacheRule minima{kTwoBits, {Granularity::Kind::kChannel}};
  constexpr KeptKeys kBefore = KeptKeys::kBeforeRotary;
  const float most = std::numeric_limits<float>::max(), turn = std::numbers::sqrt2_v<float>;
  for (const auto& [rules, growth] :
       {std::pair{CacheRules{.k = {Format::kInt4}}, 1.0f},
        {CacheRules{.k = minima}, 4.0f},
        {CacheRules{.k = {WithRange(Format::kInt2, CodeRange::kFull)}}, 4.0f},
        {CacheRules{.k = {kThreeBits}}, 4.0f},
        {CacheRules{.k = {Format::kInt4}, .keys = kBefore}, turn},
        {CacheRules{.k = minima, .keys = kBefore}, 4 * turn},
        {CacheRules{.k = {kTwoBits, minima.granularity, RotatedRuns{}}, .keys = kBefore}, 16 * turn}}) {
    Tokens tokens;
    KvCache cache(kShape, rules, rotary);
    tokens.k[16 + 7] = most / growth * 0.999f;
    tokens.AppendTo(cache, 0, 70);
    EXPECT_TRUE(std::ranges::all_of(Rows(cache), [](float x) { return std::isfinite(x); })) << growth;
    if (growth == 1.0f) continue;
    tokens.k[16 + 7] = most / growth * 1.001f;
    const std::string message = Formatted(
        "cache, k: token 0, head 1: got values up to {}, expected values, and with "
        "minima a range, that stay finite",
        tokens.k[16 + 7]);
    EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 0, 5); }), ThrowsMessage<Error>(message));
    EXPECT_EQ(cache.tokens(), 70);
  }
}

// Read back, its least value is half a step lower: written again, its range is 2.3 times the largest value that came.
TEST(KvCache, ValuesOfACutPageThatIsWrittenAgainStayFinite) {
  const CacheRules rules{.k = {WithRange(Format::kInt2, CodeRange::kZero), {Granularity::Kind::kChannel}}};
  const auto append = [](KvCache& cache, float least, float largest, int64_t count) {
    const std::vector<float> v(static_cast<size_t>(count) * 32, 0.0f);
    std::vector<float> k = v;
    k[0] = least, k[32] = largest;
    cache.Append(DenseHeads<const float>(k.data(), count, 2, 16), DenseHeads<const float>(v.data(), count, 1, 32));
  };
  const auto write_again = [&](float most) {
    KvCache cache(kShape, rules);
    append(cache, -most, most, 65);
    cache.Truncate(40);
    append(cache, -most, most, 65);
    EXPECT_TRUE(std::ranges::all_of(Rows(cache), [](float x) { return std::isfinite(x); })) << most;
  };
  write_again(8.5e37f);
  EXPECT_THAT(Call([&] { write_again(1.6e38f); }), ThrowsMessage<Error>(HasSubstr("got values up to 1.6e+38")));
}

TEST(KvCache, BadInputIsNamedAndNothingIsAppended) {
  Tokens tokens;
  KvCache cache(kShape, kInt4);
  tokens.AppendTo(cache, 0, 10);
  tokens.v[13 * 32 + 7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 10, 20); }),
              ThrowsMessage<Error>("cache, v: token 3, head 0: got NaN or infinity, expected values, and with minima "
                                   "a range, that stay finite"));
  tokens.k[5 * 32 + 17] = INFINITY;
  EXPECT_THAT(Call([&] { tokens.AppendTo(cache, 0, 20); }),
              ThrowsMessage<Error>("cache, k: token 5, head 1: got NaN or infinity, expected values, and with minima "
                                   "a range, that stay finite"));
  EXPECT_THAT(Call([] { KvCache(kShape, {.k = {Format::kU4}}); }),
              ThrowsMessage<Error>(HasSubstr("got u4, expected f32, bf16, int8 to int2, fp8e4m3, fp8e5m2, mxfp4")));
  for (const auto& [format, granularity, clip] :
       {std::tuple{Format(Format::kFp8E4M3), Granularity::Kind::kTensor, std::optional<float>()},
        {Format::kFp8E4M3, Granularity::Kind::kToken, 1.0f},
        {Format::kFp8E4M3, Granularity::Kind::kTensor, -1.0f},
        {Format::kInt8, Granularity::Kind::kTensor, INFINITY},
        {WithRange(Format::kInt8, CodeRange::kMin), Granularity::Kind::kTensor, 1.0f}}) {
    const CacheRule rule{.format = format, .granularity = {granularity}, .clip = clip};
    EXPECT_THAT(Call([&] { KvCache(kShape, {.v = rule}); }), ThrowsMessage<Error>(HasSubstr("expected a clip of 0")));
  }
  EXPECT_THAT(Call([&] { cache.Append(tokens.K(0, 1), tokens.V(0, 2)); }),
              ThrowsMessage<Error>(HasSubstr("got 2 tokens of 1 heads of width 32, expected 1 of 1")));
  EXPECT_THAT(Call([&] { cache.Truncate(11); }),
              ThrowsMessage<Error>(HasSubstr("cache: got tokens 11, expected 0 to 10")));
  EXPECT_EQ(cache.tokens(), 10);
  EXPECT_THAT(Call([] { KvCache({.k_heads = 1, .k_width = 0, .v_heads = 1, .v_width = 1}, {}); }),
              ThrowsMessage<Error>(HasSubstr("cache, k: got width 0, expected 1 to 1024")));
  EXPECT_THAT(Call([] { KvCache({.k_heads = 1, .k_width = 8, .v_heads = 1, .v_width = 1025}, {}); }),
              ThrowsMessage<Error>(HasSubstr("cache, v: got width 1025, expected 1 to 1024")));
  EXPECT_THAT(Call([] { KvCache(kShape, {.last = -1}); }), ThrowsMessage<Error>(HasSubstr("last -1")));
}

}  // namespace
}  // namespace tare::kv_cache_test
