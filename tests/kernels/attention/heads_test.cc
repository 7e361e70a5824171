// SPDX-License-Identifier: Apache-2.0
// Queries, keys, values and outputs in 16 bits: the bits of the call in f32, and what is refused.
//
// Head tables of the families, masks, and what a wrong call is told.
#include "kernels/attention/heads.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/whole_references.h"

namespace tare::heads_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

uint16_t Rounded(float x, HalfType type) { return type == HalfType::kBf16 ? Bf16FromFloat(x) : F16FromFloat(x); }
float Wide(uint16_t x, HalfType type) { return type == HalfType::kBf16 ? FloatFromBf16(x) : FloatFromF16(x); }

// A problem whose values 16 bits hold, as f32 and in them.
struct BothTypes {
  BothTypes(const AttentionShape& shape, HalfType a_type) : type(a_type), in(shape), problem(in.problem) {
    problem.q = Round(in.q, in.problem.q, q);
    problem.k = Round(in.k, in.problem.k, k);
    problem.v = Round(in.v, in.problem.v, v);
    out.resize(in.out.size(), 0x7e7e);
    problem.out = {DenseHeads(out.data(), problem.out.tokens, problem.out.heads, problem.out.width), type};
  }

  FloatHeads<const float> Round(std::vector<float>& values, const HeadsView<const float>& view,
                                std::vector<uint16_t>& halves) const {
    for (float& x : values) {
      halves.push_back(Rounded(x, type));
      x = Wide(halves.back(), type);
    }
    return {HeadsView<const uint16_t>{halves.data() + (view.data - values.data()), view.tokens, view.heads, view.width,
                                      view.token_stride, view.head_stride},
            type};
  }

  // The f32 call's output, rounded once.
  void ExpectRounded() const {
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], Rounded(in.out[i], type)) << i;
  }

  HalfType type;
  RandomAttention in;
  std::vector<uint16_t> q, k, v, out;
  AttentionProblem problem;  // in.problem in 16 bits
};

void Fuse(const AttentionProblem& problem, ProductTypes types) {
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(problem, types));
  FusedAttention(problem, workspace.span(), types);
}

void Execute(const AttentionPlan& plan, const AttentionProblem& problem) {
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, problem));
  ExecutedAttention(plan, problem, workspace.span());
}

// Widths off the vectors', rows that see nothing, gaps between rows.
constexpr AttentionShape kShapes[] = {
    {.family = HeadKind::kV1, .heads = 2, .queries = 75, .keys = 70, .d = 22, .v_width = 70, .pad = 3},
    {.family = HeadKind::kStandard, .heads = 4, .kv = 2, .queries = 5, .keys = 300, .d = 64, .v_width = 64},
    {.family = HeadKind::kDiffLlamaOrder, .heads = 2, .kv = 1, .queries = 130, .keys = 130, .d = 16, .v_width = 24}};

TEST(Halves, EveryKernelGivesTheBitsOfF32Rounded) {
  for (const AttentionShape& shape : kShapes) {
    for (const HalfType type : {HalfType::kBf16, HalfType::kF16}) {
      BothTypes both(shape, type);
      ReferenceAttention(both.in.problem);
      ReferenceAttention(both.problem);
      both.ExpectRounded();
      for (const ProductTypes types : {ProductTypes::kF32, ProductTypes::kBf16}) {
        Fuse(both.in.problem, types);
        Fuse(both.problem, types);
        both.ExpectRounded();
      }
      std::vector<float> means(4 * 70, 0.25f);
      AttentionPlan plan = PlanOf(AttentionPlan::Order::kLate, 128);
      for (const bool smooth : {false, true}) {
        plan.q_mean = plan.k_mean = plan.v_mean = smooth ? means.data() : nullptr;
        for (const auto scale : {AttentionPlan::ValueScale::kBlock, AttentionPlan::ValueScale::kSequence}) {
          plan.v_scale = scale;
          Execute(plan, both.in.problem);
          Execute(plan, both.problem);
          both.ExpectRounded();
        }
      }
      if (shape.family == HeadKind::kStandard) continue;
      plan = PlanOf(AttentionPlan::Order::kEarly);
      Execute(plan, both.in.problem);
      Execute(plan, both.problem);
      both.ExpectRounded();
    }
  }
}

// Each of the four has a type of its own; a part of a problem is that part of each.
TEST(Halves, MixWithF32AndAreCut) {
  BothTypes both(kShapes[0], HalfType::kBf16);
  Fuse(both.in.problem, ProductTypes::kF32);
  const std::vector<float> whole = both.in.out;
  both.problem.q = both.in.problem.q;
  both.problem.out = both.in.problem.out;
  const size_t row = whole.size() / 75;
  for (const KeyRange& queries : {KeyRange{0, 40}, KeyRange{40, 75}}) {
    AttentionProblem part = PartOf(both.problem, queries, {0, 70});
    part.mask.shift = queries.end - 75;
    Fuse(part, ProductTypes::kF32);
  }
  EXPECT_EQ(both.in.out, whole);
  BothTypes halves(kShapes[0], HalfType::kBf16);
  AttentionProblem last = PartOf(halves.problem, {74, 75}, {0, 70});
  Fuse(last, ProductTypes::kF32);
  for (size_t i = 0; i < halves.out.size(); ++i)
    ASSERT_EQ(halves.out[i], i < 74 * row ? 0x7e7e : Bf16FromFloat(whole[i])) << i;
}

// Finite in f32, beyond all finite f16: infinity, as rounding has it, and no error.
TEST(Halves, OutputsRoundToInfinity) {
  BothTypes both(kShapes[1], HalfType::kF16);
  std::fill(both.in.v.begin(), both.in.v.end(), 70000.0f);
  both.problem.v = both.in.problem.v;
  Fuse(both.problem, ProductTypes::kF32);
  EXPECT_EQ(both.out.front(), 0x7c00);
}

TEST(Halves, PlacesOfNaNsAreNamed) {
  BothTypes both(kShapes[1], HalfType::kF16);
  const auto refused = [&](const char* why) {
    EXPECT_THAT(Call([&] { Fuse(both.problem, ProductTypes::kF32); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_THAT(Call([&] { Execute(PlanOf(AttentionPlan::Order::kLate), both.problem); }),
                ThrowsMessage<Error>(HasSubstr(why)));
  };
  both.k[(7 * 2 + 1) * 64 + 5] = 0x7c00;
  refused("attention k: got inf at token 7, head 1, channel 5, expected finite values");
  both.k[(7 * 2 + 1) * 64 + 5] = 0;
  both.q[(3 * 4 + 2) * 64 + 9] = 0x7e00;
  refused("attention q: got nan at token 3, head 2, channel 9, expected finite values");
}

TEST(Halves, AreRefusedWhereTheyAreNotTaken) {
  BothTypes both(kShapes[1], HalfType::kF16);
  EXPECT_THAT(Call([&] { QuantizedReference(PlanOf(AttentionPlan::Order::kLate), both.problem); }),
              ThrowsMessage<Error>(HasSubstr("quantized reference: got 16-bit floats, expected float32")));
  both.problem.v.halves = nullptr;
  EXPECT_THAT(Call([&] { Fuse(both.problem, ProductTypes::kF32); }),
              ThrowsMessage<Error>(HasSubstr("attention v: got a null pointer for 300 tokens")));
}

TEST(Halves, MeansAreThoseOfF32) {
  BothTypes both(kShapes[0], HalfType::kBf16);
  std::vector<float> wide(4 * 22), of_halves(4 * 22);
  MeanOfPrefix(both.in.problem.q, wide.data());
  MeanOfPrefix(both.problem.q, of_halves.data());
  EXPECT_EQ(wide, of_halves);
}

// Where it shares memory with an input, an output gave zeros.
TEST(Outputs, AreInMemoryOfTheirOwn) {
  RandomAttention in(
      {.family = HeadKind::kStandard, .heads = 2, .kv = 2, .queries = 9, .keys = 9, .d = 16, .v_width = 16});
  const auto refused = [&](const FloatHeads<const float>& view, const char* why) {
    in.problem.out = DenseHeads(const_cast<float*>(view.data), 9, 2, 16);
    EXPECT_THAT(Call([&] { CheckMemory(in.problem); }), ThrowsMessage<Error>(HasSubstr(why)));
    in.problem.out.data += 8 * 2 * 16;  // the last row of one and the first of the other, and perhaps another's
    EXPECT_THAT(Call([&] { CheckMemory(in.problem); }), ThrowsMessage<Error>(HasSubstr("expected memory of its own")));
  };
  refused(in.problem.q, "attention out: got memory that q lies in, expected memory of its own");
  refused(in.problem.k, "attention out: got memory that k lies in, expected memory of its own");
  refused(in.problem.v, "attention out: got memory that v lies in, expected memory of its own");
  std::vector<float> fused(9 * 4 * 32);  // one buffer of q, k, v and out, as a projection may leave them
  const auto part = [&](int i) { return HeadsView<float>{fused.data() + i * 32, 9, 2, 16, 4 * 32, 16}; };
  in.problem.q = ReadOnly(part(0)), in.problem.k = ReadOnly(part(1)), in.problem.v = ReadOnly(part(2));
  in.problem.out = part(3);
  EXPECT_NO_THROW(CheckMemory(in.problem));
}

using testing::ElementsAre;

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
  message(
      [](Fixture& f) {
        f.problem.weights = RowWeights::kSoftpick;
        f.problem.sinks = std::span(f.memory).first(2);
      },
      "attention with sinks or lse: got softpick, expected softmax");
  message([](Fixture& f) { f.problem.beta = 1; }, "attention with softmax: got beta 1, expected none");
}

TEST(CountPairs, IsTheTriangle) {
  Fixture f;
  EXPECT_EQ(CountPairs(f.problem), 3 + 4 + 5);
  f.problem.mask.kind = Mask::Kind::kFull;
  EXPECT_EQ(CountPairs(f.problem), 15);
}

}  // namespace

}  // namespace tare::heads_test
