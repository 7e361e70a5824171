// SPDX-License-Identifier: Apache-2.0
// Differential attention (V1) of a prompt, in f32 and in INT8.
#include <cmath>
#include <cstdio>

#include <tare/kernels/attention/float/fused_attention.h>
#include <tare/kernels/attention/integer/executed_attention.h>
#include <tare/quant/base/aligned.h>
#include "random_tensor.h"

int main() {
  constexpr int kTokens = 300, kHeads = 2, kWidth = 64;  // an output head has two maps, and values twice as wide
  const std::vector<float> q = RandomTensor(kTokens * 2 * kHeads * kWidth), k = RandomTensor(q.size()),
                           v = RandomTensor(q.size());
  std::vector<float> exact(v.size()), int8(v.size());
  const float lambda = 0.5f;
  const std::vector<tare::OutputHead> heads = tare::V1Heads(kHeads, kHeads);
  tare::AttentionProblem problem{.q = tare::DenseHeads(q.data(), kTokens, 2 * kHeads, kWidth),
                                 .k = tare::DenseHeads(k.data(), kTokens, 2 * kHeads, kWidth),
                                 .v = tare::DenseHeads(v.data(), kTokens, kHeads, 2 * kWidth),
                                 .heads = heads,
                                 .lambda = {.data = &lambda},  // strides of 0: one for all tokens and heads
                                 .mask = {.kind = tare::Mask::Kind::kCausal},
                                 .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                                 .out = tare::DenseHeads(exact.data(), kTokens, kHeads, 2 * kWidth)};
  tare::AlignedBuffer<std::byte> workspace(tare::FusedWorkspaceBytes(problem));
  tare::FusedAttention(problem, workspace.span());

  const tare::AttentionPlan plan{
      .order = tare::AttentionPlan::Order::kEarly, .probs = tare::Format::kInt8, .block = 64};
  problem.out.data = int8.data();
  workspace.Reserve(tare::WorkspaceBytes(plan, problem));
  tare::ExecutedAttention(plan, problem, workspace.span());
  const double error = RelativeError(int8, exact);
  std::printf("INT8 differential attention is %.2f %% from f32\n", 100 * error);
  return error < 0.03 ? 0 : 1;
}
