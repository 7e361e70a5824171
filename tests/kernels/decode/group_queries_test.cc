// SPDX-License-Identifier: Apache-2.0
// Products against sums in double over the keys as they are read, 128 of them at most 3 standard deviations: queries
// off by half a 16256th of their largest value move a sum by some 5e-4.
#include "kernels/decode/group_queries.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random_decode.h"

namespace tare {
namespace {

class Memory {
 public:
  Memory(size_t rows, size_t inputs)
      : keys_(rows),
        q_(rows * inputs),
        logits_(rows * kPageTokens),
        panel_(inputs * kPageTokens),
        planes_(2 * rows * inputs) {}
  GroupQueries::Memory get() {
    return {keys_.data(),   q_.data(),    planes_.data(), planes_.data() + planes_.size() / 2,
            logits_.data(), panel_.data()};
  }

 private:
  std::vector<PanelFactor> keys_;
  AlignedBuffer<float> q_, logits_, panel_;
  AlignedBuffer<int8_t> planes_;
};

TEST(GroupQueries, ProductsWithEveryPartOfAPage) {
  const CacheRule channel{.format = Format::kInt8, .granularity = {Granularity::Kind::kChannel}};
  constexpr Format kMin = WithRange(Format::kInt8, CodeRange::kMin), kZero = WithRange(Format::kInt2, CodeRange::kZero);
  for (const CacheRules rules :
       {CacheRules{.k = {kMin}, .first = 2, .last = 3}, CacheRules{.k = {kMin, channel.granularity}, .first = 2},
        CacheRules{.k = {kZero, channel.granularity}}, CacheRules{.k = {kZero}},
        CacheRules{.k = {kMin}, .keys = KeptKeys::kBeforeRotary},
        CacheRules{.k = {Format::kInt4}, .first = 2, .last = 3}, CacheRules{.k = channel},
        CacheRules{.k = {.hadamard = RotatedRuns{}}}, CacheRules{.k = channel, .keys = KeptKeys::kBeforeRotary}}) {
    const RandomDecode c({.family = HeadKind::kDiffLlama, .heads = 2, .kv = 2, .queries = 3, .keys = 70, .d = 24},
                         rules);
    const DecodeSequence s = c.sequence();
    const DecodeHeads::Group& group = c.table.groups().front();
    Memory memory(group.rows.size() * 3, 32);
    const GroupQueries queries(c.table, s, group, memory.get());
    queries.Load();
    for (int64_t page = 0; page < 2; ++page) {
      for (const KvCache::Part& part : c.cache.Parts(page)) {
        if (part.keys.begin == part.keys.end) continue;
        queries.Multiply(part, page);
        for (int64_t i = 0; i < queries.Rows(); ++i) {
          const PartLogits logits = queries.Logits(part, page, i);
          const DecodeHeads::Row& row = group.rows[static_cast<size_t>(i / 3)];
          EXPECT_EQ(logits.keys.begin, part.keys.begin);
          EXPECT_EQ(logits.keys.end, part.keys.end);
          EXPECT_EQ(logits.seen.begin, part.keys.begin);
          EXPECT_EQ(logits.seen.end, std::min<int64_t>(part.keys.end, 68 + i % 3 - page * kPageTokens));
          for (int64_t key = logits.seen.begin; key < logits.seen.end; ++key) {
            std::vector<float> k(24);
            c.cache.ReadKey(page * kPageTokens + key, row.k, k.data());
            double sum = 0;
            for (int d = 0; d < 24; ++d) sum += k[d] * double{s.q.Row(i % 3, row.q)[d]};
            const float scale = logits.key_scales == nullptr ? 1.0f : logits.key_scales[key];
            EXPECT_NEAR(logits.products[key] * scale, sum, 1e-3);
          }
        }
      }
    }
  }
}

TEST(GroupQueries, AWindowHidesOlderKeys) {
  const RandomDecode c({.queries = 2, .keys = 100, .d = 16, .mask = {.kind = Mask::Kind::kWindow, .window = 40}}, {});
  const DecodeSequence s = c.sequence();
  const DecodeHeads::Group& group = c.table.groups().front();
  Memory memory(group.rows.size() * 2, 16);
  const GroupQueries queries(c.table, s, group, memory.get());
  queries.Load();
  const auto seen = [&](int64_t page, int64_t i) {
    const KvCache::Part part = c.cache.Parts(page)[1];
    queries.Multiply(part, page);
    const PartLogits logits = queries.Logits(part, page, i);
    return std::pair(logits.seen.begin, logits.seen.end);
  };
  EXPECT_EQ(seen(0, 0), std::pair(int64_t{59}, int64_t{64}));  // token 98 sees 59 .. 98
  EXPECT_EQ(seen(0, 1), std::pair(int64_t{60}, int64_t{64}));
  EXPECT_EQ(seen(1, 0), std::pair(int64_t{0}, int64_t{35}));
  EXPECT_EQ(seen(1, 1), std::pair(int64_t{0}, int64_t{36}));
}

}  // namespace
}  // namespace tare
