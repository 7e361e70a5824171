// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_work.h"

#include <gtest/gtest.h>

#include "tests/support/random_decode.h"

namespace tare::decode_work_test {
namespace {

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
