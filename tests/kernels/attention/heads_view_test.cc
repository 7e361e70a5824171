// SPDX-License-Identifier: Apache-2.0
// Queries, keys, values and outputs in 16 bits: the bits of the call in f32, and what is refused.
#include "kernels/attention/heads_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention_plan.h"
#include "kernels/attention/float/fused_attention.h"
#include "quant/base/message.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"
#include "tests/support/whole_references.h"

namespace tare::heads_view_test {
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

}  // namespace
}  // namespace tare::heads_view_test
