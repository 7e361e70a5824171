// SPDX-License-Identifier: Apache-2.0
// One sequence through attention on the integer kernels, as an executed plan has it: with the means of Q, K and V that
// +smooth subtracts, and with rows that +hadamard rotates. Products of Q and K do not change if both are rotated; of V,
// the outputs are rotated back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "experiments/plan/executed_plan.h"
#include "quant/base/aligned.h"

namespace tare {

// Grows with the largest sequence, and is kept.
struct ExecutedMemory {
  std::vector<float> q_mean, k_mean, v_mean;
  AlignedBuffer<float> q, k, v;  // rotated rows
};

class ExecutedSequence {
 public:
  // The memory must outlive it. Uses all threads. Throws Error where no rotation of the heads' width is known.
  ExecutedSequence(const ExecutedPlan& plan, const AttentionProblem& sequence, ExecutedMemory& memory);

  size_t WorkspaceBytes() const;
  void Run(std::span<std::byte> workspace) const;

 private:
  AttentionPlan plan_;
  AttentionProblem problem_;
  const Hadamard* of_outputs_;  // of each slice of V; null: not rotated
};

}  // namespace tare
