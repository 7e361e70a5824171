// SPDX-License-Identifier: Apache-2.0
// Head tables of the families, masks, and what a wrong call is told.
#include "kernels/attention/heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::heads_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

void ExpectHead(const OutputHead& head, int q1, int k1, int q2, int k2, std::array<int, 2> v) {
  EXPECT_EQ(head.q1, q1);
  EXPECT_EQ(head.k1, k1);
  EXPECT_EQ(head.q2, q2);
  EXPECT_EQ(head.k2, k2);
  EXPECT_EQ(head.v, v);
}

TEST(Heads, Standard) { ExpectHead(StandardHeads(6, 2)[3], 3, 1, kNoMap, kNoMap, {1, kNoMap}); }
TEST(Heads, V1PairsNeighbours) { ExpectHead(V1Heads(4, 2)[3], 6, 2, 7, 3, {1, kNoMap}); }
TEST(Heads, DiffLlamaPairsHalves) { ExpectHead(DiffLlamaHeads(8, 4)[1], 1, 0, 5, 2, {0, 2}); }
TEST(Heads, DiffLlamaOneKeyValueHead) { ExpectHead(DiffLlamaHeads(4, 1)[1], 1, 0, 3, 0, {0, 0}); }
TEST(Heads, V2SharesKeys) { ExpectHead(V2Heads(4, 2)[3], 6, 1, 7, 1, {1, kNoMap}); }

TEST(Heads, GroupedIsV1WithTwoSlices) {
  const std::vector<OutputHead> grouped = GroupedHeads(8, 4, 4), v1 = V1Heads(4, 2);
  ASSERT_EQ(grouped.size(), v1.size());
  for (size_t h = 0; h < v1.size(); ++h)
    ExpectHead(grouped[h], v1[h].q1, v1[h].k1, v1[h].q2, v1[h].k2, {2 * v1[h].v[0], 2 * v1[h].v[0] + 1});
}
TEST(Heads, GroupedSharesTheNoiseHead) {
  const std::vector<OutputHead> table = GroupedHeads(10, 2, 4);  // [s s s s n] [s s s s n]
  ASSERT_EQ(table.size(), 8u);
  ExpectHead(table[3], 3, 0, 4, 1, {0, 1});
  ExpectHead(table[4], 5, 2, 9, 3, {2, 3});
}

TEST(Heads, RefusesRatiosThatDoNotDivide) {
  EXPECT_THROW(GroupedHeads(10, 4, 4), Error);
  EXPECT_THROW(GroupedHeads(4, 4, 4), Error);
  EXPECT_THROW(GroupedHeads(8, 4, 3), Error);
  EXPECT_THROW(GroupedHeads(8, 2, 8), Error);
  EXPECT_THAT(Call([] { StandardHeads(6, 4); }), ThrowsMessage<Error>(HasSubstr("standard heads: got 6 over 4")));
  EXPECT_THAT(Call([] { StandardHeads(1 << 30, 1); }), ThrowsMessage<Error>(HasSubstr("expected at most 65536")));
  EXPECT_THAT(Call([] { DiffLlamaHeads(3, 1); }), ThrowsMessage<Error>(HasSubstr("even")));
}

TEST(Mask, Keys) {
  const Mask causal;
  EXPECT_EQ(causal.Keys(0, 4, 4).end, 1);
  EXPECT_EQ(causal.Keys(3, 4, 4).end, 4);
  EXPECT_EQ(causal.Keys(0, 2, 5).end, 4);  // the last query sees everything
  EXPECT_EQ(causal.Keys(0, 5, 2).end, 0);  // more queries than keys: the first see nothing
  const Mask window{Mask::Kind::kWindow, 3};
  EXPECT_EQ(window.Keys(9, 10, 10).begin, 7);
  EXPECT_EQ(window.Keys(1, 10, 10).begin, 0);
  EXPECT_EQ((Mask{Mask::Kind::kFull}.Keys(0, 9, 2).end), 2);
}

struct Fixture {
  std::vector<float> memory = std::vector<float>(64), own = memory;
  std::vector<OutputHead> heads = V1Heads(1, 1);
  AttentionProblem problem{.q = DenseHeads<const float>(memory.data(), 3, 2, 4),
                           .k = DenseHeads<const float>(memory.data(), 5, 2, 4),
                           .v = DenseHeads<const float>(memory.data(), 5, 1, 8),
                           .heads = heads,
                           .lambda = {memory.data()},
                           .scale = 0.5f,
                           .out = DenseHeads(own.data(), 3, 1, 8)};
};

TEST(CheckProblem, NamesWhatIsWrong) {
  const auto message = [](auto change, const char* text) {
    Fixture f;
    CheckProblem(f.problem);
    change(f);
    EXPECT_THAT(Call([&] { CheckProblem(f.problem); }), ThrowsMessage<Error>(HasSubstr(text)));
  };
  message([](Fixture& f) { f.heads[0].k2 = 2; }, "row 0: got k2 2, expected 0 to 1");
  message([](Fixture& f) { f.heads[0].q1 = -1; }, "q1 -1");
  message([](Fixture& f) { f.heads[0].v = {0, 1}; }, "got v 1");
  message([](Fixture& f) { f.problem.k.width = 5; }, "q of width 4 and k of width 5");
  message([](Fixture& f) { f.problem.v.tokens = 4; }, "5 tokens of k and 4 of v");
  message([](Fixture& f) { f.problem.out.tokens = 4; }, "3 tokens of q and 4 of out");
  message([](Fixture& f) { f.problem.out.width = 4; }, "expected the output's width 4");
  message([](Fixture& f) { f.problem.out.heads = 2; }, "table of 1 heads");
  message([](Fixture& f) { f.problem.lambda.data = nullptr; }, "no lambda");
  message([](Fixture& f) { f.problem.v.data = nullptr; }, "null pointer");
  message([](Fixture& f) { f.problem.scale = 0.0f / 0.0f; }, "scale");
  message([](Fixture& f) { f.problem.mask = {Mask::Kind::kWindow, 0}; }, "window: got 0");
}

TEST(CountPairs, IsTheTriangle) {
  Fixture f;
  EXPECT_EQ(CountPairs(f.problem), 3 + 4 + 5);
  f.problem.mask.kind = Mask::Kind::kFull;
  EXPECT_EQ(CountPairs(f.problem), 15);
}

}  // namespace
}  // namespace tare::heads_test
