// SPDX-License-Identifier: Apache-2.0
// Differential attention (V1) in INT8 and in f32 on the same tensors, with tare::kernels alone: no model, no file.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "quant/base/aligned.h"

int main() {
  constexpr int kTokens = 300, kHeads = 2, kWidth = 64;  // an output head has two maps and values twice as wide
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto tensor = [&](int heads, int width) {
    std::vector<float> x(static_cast<size_t>(kTokens) * heads * width);
    for (float& value : x) value = normal(random);
    return x;
  };
  const std::vector<float> q = tensor(2 * kHeads, kWidth), k = q, v = tensor(kHeads, 2 * kWidth);
  std::vector<float> exact(v.size()), int8(v.size());
  const float lambda = 0.5f;
  const std::vector<tare::OutputHead> heads = tare::V1Heads(kHeads, kHeads);
  tare::AttentionProblem problem{.q = tare::DenseHeads(q.data(), kTokens, 2 * kHeads, kWidth),
                                 .k = tare::DenseHeads(k.data(), kTokens, 2 * kHeads, kWidth),
                                 .v = tare::DenseHeads(v.data(), kTokens, kHeads, 2 * kWidth),
                                 .heads = heads,
                                 .lambda = {.data = &lambda},
                                 .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                                 .out = tare::DenseHeads(exact.data(), kTokens, kHeads, 2 * kWidth)};
  tare::AlignedBuffer<std::byte> workspace(tare::FusedWorkspaceBytes(problem));
  tare::FusedAttention(problem, workspace.span());

  const tare::AttentionPlan plan{
      .order = tare::AttentionPlan::Order::kEarly, .probs = tare::Format::kInt8, .block = 64};
  problem.out.data = int8.data();
  workspace.Reserve(tare::WorkspaceBytes(plan, problem));
  tare::ExecutedAttention(plan, problem, workspace.span());

  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) error += std::pow(int8[i] - exact[i], 2), norm += exact[i] * exact[i];
  std::printf("INT8 differential attention is %.2f %% from f32\n", 100 * std::sqrt(error / norm));
  return error < 0.03 * 0.03 * norm ? 0 : 1;
}
