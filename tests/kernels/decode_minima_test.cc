// SPDX-License-Identifier: Apache-2.0
// Caches in two and three bits with minima, as KIVI has keys and values, decoded while they are cut, grown and forked,
// and where minima are all there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/random_decode.h"

namespace tare::decode_minima_test {
namespace {

constexpr Granularity kOfChannels = {Granularity::Kind::kChannel};
constexpr Format kPairs = WithRange(Format::kInt2, CodeRange::kMin),
                 kTriples = WithRange(Format::kInt3, CodeRange::kZero);
constexpr CacheRules kOfKivi{.k = {kPairs, kOfChannels}, .v = {kPairs}};

void ExpectExact(RandomDecode& c, const std::string& what) {
  std::ranges::fill(c.tensors.out, 99.0f);
  c.Run();
  EXPECT_LT(WorstRow(c), 1) << what;
}

// Cut in the middle of a page that has its codes, and grown again.
TEST(DecodeMinima, ACutCacheWithMinima) {
  for (const CacheRules& rules : {kOfKivi, CacheRules{.k = {kTriples}, .v = {kPairs, kOfChannels}, .last = 5}}) {
    RandomDecode c({.queries = 1, .keys = 200}, rules);
    const KvCache fork = c.cache;
    c.cache.Truncate(100);
    ExpectExact(c, "cut");
    const auto& p = c.tensors.problem;
    HeadsView<const float> k = p.k, v = p.v;
    k.data = k.Row(100, 0), v.data = v.Row(100, 0);
    k.tokens = v.tokens = 70;
    c.cache.Append(k, v);
    ExpectExact(c, "grown again");
    c.cache = fork;
    ExpectExact(c, "the fork");
  }
}

// Keys that are equal in a channel, values equal in a token: codes say nothing, and minima all.
TEST(DecodeMinima, EqualValuesAreTheirMinima) {
  RandomDecode c({.queries = 1, .keys = 129}, kOfKivi);
  const AttentionProblem& p = c.tensors.problem;
  for (int64_t t = 0; t < 129; ++t) {
    for (int h = 0; h < p.k.heads; ++h) std::copy_n(p.k.Row(0, h), p.k.width, const_cast<float*>(p.k.Row(t, h)));
    for (int h = 0; h < p.v.heads; ++h)
      std::fill_n(const_cast<float*>(p.v.Row(t, h)), p.v.width, 0.25f * static_cast<float>(t));
  }
  c.cache.Truncate(0);
  c.cache.Append(p.k, p.v);
  std::vector<float> key(static_cast<size_t>(p.k.width));
  c.cache.ReadKey(5, 0, key.data());
  EXPECT_TRUE(std::equal(key.begin(), key.end(), p.k.Row(0, 0)));
  ExpectExact(c, "equal");
}

}  // namespace
}  // namespace tare::decode_minima_test
