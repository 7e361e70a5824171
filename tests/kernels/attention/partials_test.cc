// SPDX-License-Identifier: Apache-2.0
// Work split over keys and merged: bit for bit the whole where there is one part, and the double reference within the
// quantization's error where there are several.
#include "kernels/attention/partials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/attention/reference_attention.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"

namespace tare {
namespace {

constexpr int kHeads = 2, kWidth = 32;
constexpr int64_t kTokens = 150;

struct Case {
  explicit Case(bool differential, Mask mask) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const int maps = differential ? 2 : 1;
    for (std::vector<float>* x : {&q, &k}) x->resize(kTokens * maps * kHeads * kWidth);
    v.resize(kTokens * kHeads * kWidth);
    out.resize(v.size());
    for (std::vector<float>* x : {&q, &k, &v}) {
      for (float& value : *x) value = normal(random);
    }
    heads = differential ? V1Heads(kHeads, kHeads) : StandardHeads(kHeads, kHeads);
    problem = {.q = DenseHeads<const float>(q.data(), kTokens, maps * kHeads, kWidth),
               .k = DenseHeads<const float>(k.data(), kTokens, maps * kHeads, kWidth),
               .v = DenseHeads<const float>(v.data(), kTokens, kHeads, kWidth),
               .heads = heads,
               .lambda = {.data = &lambda},
               .mask = mask,
               .scale = 1.0f / std::sqrt(static_cast<float>(kWidth)),
               .out = DenseHeads(out.data(), kTokens, kHeads, kWidth)};
  }
  // Keys [begin, end) alone.
  AttentionProblem Part(int64_t begin, int64_t end) const {
    AttentionProblem part = problem;
    part.k.data = problem.k.Row(begin, 0);
    part.v.data = problem.v.Row(begin, 0);
    part.k.tokens = part.v.tokens = end - begin;
    part.mask.shift = kTokens - end;
    return part;
  }
  float lambda = 0.6f;
  std::vector<float> q, k, v, out;
  std::vector<OutputHead> heads;
  AttentionProblem problem;
};

struct Memory {
  Memory() : max(2 * kTokens * kHeads), sum(max.size()), o(max.size() * kWidth) {}
  AttentionPartials View() {
    AttentionPartials view;
    for (int map = 0; map < 2; ++map) {
      view[map] = {.max = max.data() + map * kTokens * kHeads,
                   .sum = sum.data() + map * kTokens * kHeads,
                   .o = DenseHeads(o.data() + map * kTokens * kHeads * kWidth, kTokens, kHeads, kWidth)};
    }
    return view;
  }
  std::vector<float> max, sum, o;
};

void RunPart(const AttentionPlan& plan, const AttentionProblem& part, Memory& memory) {
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, part));
  ExecutedPartials(plan, part, workspace.span(), memory.View());
}

double RelativeError(const Case& c) {
  const std::vector<double> want = ReferenceAttentionDouble(c.problem);
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) error += std::pow(c.out[i] - want[i], 2), norm += want[i] * want[i];
  return std::sqrt(error / norm);
}

const AttentionPlan kPlan{.block = 64};

TEST(PartialsTest, OnePartIsTheWhole) {
  for (const bool differential : {false, true}) {
    Case c(differential, {});
    AlignedBuffer<std::byte> workspace(WorkspaceBytes(kPlan, c.problem));
    ExecutedAttention(kPlan, c.problem, workspace.span());
    const std::vector<float> whole = c.out;
    Memory memory;
    RunPart(kPlan, c.problem, memory);
    FinishPartials(c.problem, memory.View());
    // The largest code's division, and two roundings: a few units of 2^-24 of the row's own terms.
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(c.out[i], whole[i], 1e-5) << i;
  }
}

// Parts of 1 key and of no whole tile, in any order, causal, windowed and full: rows that see nothing of a part among
// them. The error is the quantization's, 2 % at most here as for whole rows.
TEST(PartialsTest, PartsMergeToTheWhole) {
  const Mask masks[] = {{}, {.kind = Mask::Kind::kFull}, {.kind = Mask::Kind::kWindow, .window = 40}};
  for (const Mask& mask : masks) {
    for (const bool differential : {false, true}) {
      Case c(differential, mask);
      AlignedBuffer<std::byte> workspace(WorkspaceBytes(kPlan, c.problem));
      ExecutedAttention(kPlan, c.problem, workspace.span());
      const double whole = RelativeError(c);
      Memory merged, part;
      const int64_t cuts[] = {0, 1, 70, 134, kTokens};
      RunPart(kPlan, c.Part(70, 134), merged);
      for (const size_t i : {0, 3, 1}) {
        RunPart(kPlan, c.Part(cuts[i], cuts[i + 1]), part);
        MergePartials(c.problem, part.View(), merged.View());
      }
      FinishPartials(c.problem, merged.View());
      EXPECT_LT(RelativeError(c), 1.25 * whole) << static_cast<int>(mask.kind) << differential;
    }
  }
}

TEST(PartialsTest, APartThatNoRowSeesChangesNothing) {
  Case c(true, {});
  Memory memory, none;
  RunPart(kPlan, c.problem, memory);
  const std::vector<float> before = memory.o;
  AttentionProblem unseen = c.problem;
  unseen.mask.shift = -2 * kTokens;
  RunPart(kPlan, unseen, none);
  EXPECT_EQ(none.max[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(none.sum[0], 0.0f);
  MergePartials(c.problem, none.View(), memory.View());
  EXPECT_EQ(memory.o, before);
}

TEST(PartialsTest, SumsAreThoseOfTheExponentials) {
  Case c(false, {.kind = Mask::Kind::kFull});
  Memory memory;
  RunPart(kPlan, c.problem, memory);
  const float* q = c.problem.q.Row(3, 1);
  double sum = 0, largest = -1e9;
  for (int64_t s = 0; s < kTokens; ++s) {
    double dot = 0;
    for (int i = 0; i < kWidth; ++i) dot += double{q[i]} * c.problem.k.Row(s, 1)[i];
    largest = std::max(largest, dot * c.problem.scale);
    sum += std::exp(dot * c.problem.scale - memory.max[3 * kHeads + 1]);
  }
  EXPECT_NEAR(memory.max[3 * kHeads + 1], largest, 4.0);  // of the first block's maximum or later
  EXPECT_NEAR(memory.sum[3 * kHeads + 1] / sum, 1.0, 0.02);
}

TEST(PartialsTest, EarlyOrderAndSmoothedValuesAreRefused) {
  Case c(true, {});
  Memory memory;
  const AttentionPlan early{.order = AttentionPlan::Order::kEarly, .probs = Format::kInt8, .block = 64};
  EXPECT_THROW(RunPart(early, c.problem, memory), Error);
  AttentionPlan smoothed = kPlan;
  smoothed.v_mean = c.v.data();
  EXPECT_THROW(RunPart(smoothed, c.problem, memory), Error);
}

}  // namespace
}  // namespace tare
