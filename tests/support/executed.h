// SPDX-License-Identifier: Apache-2.0
// The executed attention of a random problem, from a workspace that holds nothing of use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/aligned.h"
#include "tests/support/random_attention.h"

namespace tare {

// int8 throughout; probabilities u8 where heads are subtracted after P x V.
inline AttentionPlan PlanOf(AttentionPlan::Order order, int block = 64) {
  AttentionPlan plan;
  plan.order = order;
  plan.probs = order == AttentionPlan::Order::kEarly ? Format::kInt8 : Format::kU8;
  plan.block = block;
  return plan;
}

inline std::vector<float> Execute(const AttentionPlan& plan, RandomAttention& in) {
  AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, in.problem));
  std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
  ExecutedAttention(plan, in.problem, workspace.span());
  return in.out;
}

// |got - want| / |want|, Euclidean.
template <typename T>
double RelativeError(const std::vector<float>& got, const std::vector<T>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    size += double{want[i]} * want[i];
  }
  return std::sqrt(error / size);
}

}  // namespace tare
