// SPDX-License-Identifier: Apache-2.0
// Rotations around the integer kernels, against the same kernels on rows that the double rotation made.
#include "experiments/plan/executed_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/attention/reference_attention.h"
#include "quant/base/error.h"
#include "quant/format/hadamard.h"
#include "tests/support/call.h"
#include "tests/support/executed.h"

namespace tare::executed_sequence_test {
namespace {

std::vector<float> Attended(const ExecutedPlan& plan, RandomAttention& in) {
  ExecutedMemory memory;
  const ExecutedSequence sequence(plan, in.problem, memory);
  AlignedBuffer<std::byte> workspace(sequence.WorkspaceBytes());
  sequence.Run(workspace.span());
  return in.out;
}

void RotateAll(const HeadsView<const float>& x, const Hadamard& rotation) {
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int h = 0; h < x.heads; ++h) rotation.Rotate(x.Row(t, h), const_cast<float*>(x.Row(t, h)));
  }
}

// V of one slice and of two, heads of other widths than a power of two, rows that are not dense.
TEST(ExecutedSequence, RowsAreRotatedAndOutputsRotatedBack) {
  for (const HeadKind family : {HeadKind::kStandard, HeadKind::kV1, HeadKind::kDiffLlamaOrder}) {
    const AttentionShape shape{.family = family, .queries = 66, .keys = 66, .d = 20, .v_width = 24, .pad = 3};
    RandomAttention in(shape), rotated(shape);
    const ExecutedPlan plain{.attention = PlanOf(AttentionPlan::Order::kLate)};
    ExecutedPlan plan = plain;
    plan.rotated_qk = RotatedRuns{};
    plan.rotated_v = RotatedRuns{8};
    RotateAll(rotated.problem.q, PlanRotation(20));
    RotateAll(rotated.problem.k, PlanRotation(20));
    RotateAll(rotated.problem.v, PlanRotation(24, {8}));
    std::vector<float> expected = Attended(plain, rotated);
    for (size_t i = 0; i < expected.size(); i += 24) PlanRotation(24, {8}).RotateBack(&expected[i], &expected[i]);
    // A code of 127 that falls to the other side of a tie moves few values, by a 1/127th of theirs.
    EXPECT_LT(RelativeError(Attended(plan, in), expected), 2e-3);
    EXPECT_GT(RelativeError(Attended(plan, in), Attended(plain, in)), 4e-3) << "nothing was rotated";
    ReferenceAttention(in.problem);
    EXPECT_LT(RelativeError(expected, in.out), 0.02) << "and it is attention";
  }
}

// An outlier in one channel of K takes four bits from all the others of its row.
TEST(ExecutedSequence, RotationsSpreadOutliers) {
  RandomAttention in({.family = HeadKind::kStandard, .queries = 80, .keys = 80, .d = 64, .v_width = 64});
  for (int64_t t = 0; t < 80; ++t) {
    for (int h = 0; h < in.problem.k.heads; ++h) const_cast<float*>(in.problem.k.Row(t, h))[5] *= 20;
    for (int h = 0; h < in.problem.q.heads; ++h) const_cast<float*>(in.problem.q.Row(t, h))[5] /= 20;
  }
  ReferenceAttention(in.problem);
  const std::vector<float> exact = in.out;
  ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate)};
  plan.attention.q = plan.attention.k = Format::kInt4;
  const double without = RelativeError(Attended(plan, in), exact);
  plan.rotated_qk = RotatedRuns{};
  EXPECT_LT(RelativeError(Attended(plan, in), exact), 0.7 * without);
}

TEST(ExecutedSequence, WidthsWithoutARotationAreRefused) {
  RandomAttention in({.family = HeadKind::kStandard, .d = 18});
  ExecutedPlan plan{.attention = PlanOf(AttentionPlan::Order::kLate)};
  plan.rotated_qk = RotatedRuns{};
  EXPECT_THAT(Call([&] { Attended(plan, in); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("hadamard: got 18 channels")));
}

}  // namespace
}  // namespace tare::executed_sequence_test
