// SPDX-License-Identifier: Apache-2.0
// Products against sums in double over the keys as they are read.
#include "kernels/decode/decode_work.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/panel_input.h"
#include "tests/support/random_decode.h"

namespace tare::decode_work_test {
namespace {

class Memory {
 public:
  Memory(size_t rows, size_t inputs)
      : keys_(rows),
        q_(rows * inputs),
        factors_(rows * inputs),
        logits_(rows * kPageTokens),
        panel_(inputs * kPageTokens) {}
  GroupQueries::Memory get() { return {keys_.data(), q_.data(), factors_.data(), logits_.data(), panel_.data()}; }

 private:
  std::vector<PanelFactor> keys_;
  AlignedBuffer<float> q_, factors_, logits_, panel_;
};

// What planes move a product with codes by: queries, or queries times scales per channel, are half a 16256th of their
// largest off, for each of the codes from their middle. Beside it 32 roundings in f32 of sums, scales and minima, with
// codes of at most 256 steps; rotations keep a row's length.
double ProductBound(const KvCache::Part& part, bool codes, int head, int64_t key, const float* q, const float* k,
                    int width) {
  const PageLayout& layout = *part.layout;
  const Format format = layout.k().rule().format;
  const bool by_channel = layout.k().rule().ByChannel();
  alignas(64) float memory[2 * 32];
  const int run = layout.k().Runs() == 1 ? 0 : static_cast<int>(key) / 32;
  const float* scales = by_channel ? layout.k().InputScales(part.k, head, run, memory).scales
                                   : reinterpret_cast<const float*>(part.k + layout.k().Scales(head));
  double most = 0, sum = 0, q_size = 0, k_size = 0;
  for (int i = 0; i < width; ++i) {
    const double scale = codes ? scales[by_channel ? i : key] : 0;
    const double code = codes ? ReadInput(format, part.k + layout.k().Panel(head), i, static_cast<int>(key)) : 0;
    most = std::max(most, std::abs(q[i]) * (by_channel ? scale : 1));
    sum += std::abs(code + RaisedBy(format) - MiddleOf(format)) * (by_channel ? 1 : scale);
    q_size += double{q[i]} * q[i];
    k_size += std::pow(std::abs(k[i]) + 256 * scale, 2);
  }
  const double planes = codes ? 0.502 * sum * most / kLargestPlaneCode : 0;
  return planes + 32 * 0x1p-24 * std::sqrt(width * q_size * k_size);
}

TEST(GroupQueries, ProductsWithEveryPartOfAPage) {
  const CacheRule channel{.format = Format::kInt8, .granularity = {Granularity::Kind::kChannel}};
  constexpr Format kMin = WithRange(Format::kInt8, CodeRange::kMin), kZero = WithRange(Format::kInt2, CodeRange::kZero),
                   kMean = WithRange(Format::kNormal3, CodeRange::kMean);
  for (const CacheRules& rules :
       {CacheRules{.k = {kMean}, .first = 2}, CacheRules{.k = {kMean, channel.granularity}},
        CacheRules{.k = {Format::kFp8E4M3}, .last = 3},
        CacheRules{.k = {Format::kFp8E5M2, {Granularity::Kind::kBlockChannel, 32}}, .first = 2},
        CacheRules{.k = {kMin}, .first = 2, .last = 3}, CacheRules{.k = {kMin, channel.granularity}, .first = 2},
        CacheRules{.k = {kZero, channel.granularity}}, CacheRules{.k = {kZero}},
        CacheRules{.k = {kMin}, .keys = KeptKeys::kBeforeRotary},
        CacheRules{.k = {Format::kInt4}, .first = 2, .last = 3}, CacheRules{.k = channel},
        CacheRules{.k = {kMin, {Granularity::Kind::kBlockChannel, 32}}, .first = 2},
        CacheRules{.k = {kZero, {Granularity::Kind::kBlockChannel, 64}}},
        CacheRules{.k = {Format::kInt3, {Granularity::Kind::kBlockChannel, 32}}, .first = 40},
        CacheRules{.k = {.hadamard = RotatedRuns{}}}, CacheRules{.k = channel, .keys = KeptKeys::kBeforeRotary}}) {
    const RandomDecode c({.family = HeadKind::kDiffLlamaOrder, .heads = 2, .kv = 2, .queries = 3, .keys = 70, .d = 24},
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
            const bool codes = HasCodes(part.layout->k().rule().format) && !c.cache.KeysBeforeRotary();
            const double bound = ProductBound(part, codes, row.k, key, s.q.Row(i % 3, row.q), k.data(), 24);
            EXPECT_NEAR(logits.products[key] * scale, sum, bound);
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

// Chunks cover the pages that any query sees, and no other.
TEST(DecodeWork, CutsCoverThePagesThatAreSeen) {
  for (const int64_t window : {0, 1, 100}) {
    for (const int64_t keys : {1, 64, 65, 700, 3000}) {
      const Mask mask{.kind = window == 0 ? Mask::Kind::kCausal : Mask::Kind::kWindow, .window = window};
      const RandomDecode c({.queries = 1, .keys = keys, .mask = mask}, {});
      for (const int64_t newer : {int64_t{0}, keys / 2, keys}) {
        DecodeSequence s = c.sequence();
        s.newer = newer;
        const Cuts cuts(c.table, s);
        const int64_t seen = keys - newer, oldest = window == 0 ? 0 : std::max<int64_t>(0, seen - window);
        EXPECT_EQ(cuts.first, oldest / 64);
        EXPECT_EQ(cuts.end, (seen + 63) / 64);
        EXPECT_LE(cuts.chunks, kMostChunks);
        EXPECT_GE(cuts.chunks * cuts.pages, cuts.end - cuts.first);
        EXPECT_LT((cuts.chunks - 1) * cuts.pages, std::max<int64_t>(1, cuts.end - cuts.first));
      }
    }
  }
}

// Every query is of one round, and the tokens after a round's last one are those that it does not see.
TEST(DecodeWork, RoundsTakeEveryQueryOnce) {
  const RandomDecode c({.family = HeadKind::kV2, .heads = 32, .kv = 1, .queries = 70, .keys = 2000}, {});
  const DecodeSequence whole = c.sequence();
  const DecodeLayout layout(c.table, {&whole, 1});
  EXPECT_GT(layout.rounds(), 1);
  int64_t next = 0;
  for (int64_t round = 0; round < layout.rounds(); ++round) {
    const DecodeSequence s = layout.OfRound(whole, round);
    EXPECT_GT(s.q.tokens, 0);
    EXPECT_EQ(s.q.data, whole.q.Row(next, 0));
    EXPECT_EQ(s.out.data, whole.out.Row(next, 0));
    EXPECT_EQ(s.lambda.At(0, 0), whole.lambda.At(next, 0));
    next += s.q.tokens;
    EXPECT_EQ(s.newer, 70 - next);
    const int64_t kept = Cuts(c.table, s).end * c.table.rows() * s.q.tokens * kPageTokens * 4;
    EXPECT_LE(kept, kMostKeptBytes);
  }
  EXPECT_EQ(next, 70);
  EXPECT_EQ(layout.OfRound(whole, layout.rounds()).q.tokens, 0);
}

}  // namespace

}  // namespace tare::decode_work_test
