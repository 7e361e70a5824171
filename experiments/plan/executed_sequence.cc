// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/executed_sequence.h"

#include "kernels/attention/attention_plan.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

const Hadamard* RotationOf(const std::optional<RotatedRuns>& runs, int width) {
  return runs ? &PlanRotation(width, *runs) : nullptr;
}

HeadsView<const float> Rotated(const HeadsView<const float>& x, const Hadamard* rotation,
                               AlignedBuffer<float>& memory) {
  if (rotation == nullptr) return x;
  memory.Reserve(static_cast<size_t>(x.tokens) * static_cast<size_t>(x.heads) * static_cast<size_t>(x.width));
  const HeadsView<float> rotated = DenseHeads(memory.data(), x.tokens, x.heads, x.width);
  ParallelFor(static_cast<size_t>(x.tokens), [&](size_t t, int) {
    const auto token = static_cast<int64_t>(t);
    for (int h = 0; h < x.heads; ++h) RotateRow(*rotation, x.Row(token, h), rotated.Row(token, h));
  });
  return ReadOnly(rotated);
}

const float* MeanOf(const HeadsView<const float>& x, bool smooth, std::vector<float>& mean) {
  if (!smooth) return nullptr;
  mean.resize(static_cast<size_t>(x.heads) * static_cast<size_t>(x.width));
  MeanOfPrefix(x, mean.data());
  return mean.data();
}

}  // namespace

ExecutedSequence::ExecutedSequence(const ExecutedPlan& plan, const AttentionProblem& sequence, ExecutedMemory& memory)
    : plan_(plan.attention), problem_(sequence), of_outputs_(RotationOf(plan.rotated_v, sequence.v.width)) {
  const Hadamard* const of_logits = RotationOf(plan.rotated_qk, sequence.q.width);
  problem_.q = Rotated(sequence.q, of_logits, memory.q);
  problem_.k = Rotated(sequence.k, of_logits, memory.k);
  problem_.v = Rotated(sequence.v, of_outputs_, memory.v);
  plan_.q_mean = MeanOf(problem_.q, plan.smooth_q, memory.q_mean);
  plan_.k_mean = MeanOf(problem_.k, plan.smooth_k, memory.k_mean);
  plan_.v_mean = MeanOf(problem_.v, plan.smooth_v, memory.v_mean);
}

size_t ExecutedSequence::WorkspaceBytes() const { return tare::WorkspaceBytes(plan_, problem_); }

void ExecutedSequence::Run(std::span<std::byte> workspace) const {
  ExecutedAttention(plan_, problem_, workspace);
  if (of_outputs_ == nullptr) return;
  const HeadsView<float>& out = problem_.out;
  ParallelFor(static_cast<size_t>(out.tokens), [&](size_t t, int) {
    for (int h = 0; h < out.heads; ++h) {
      float* const row = out.Row(static_cast<int64_t>(t), h);
      for (int slice = 0; slice < out.width; slice += problem_.v.width)
        RotateRowBack(*of_outputs_, row + slice, row + slice);
    }
  });
}

}  // namespace tare
