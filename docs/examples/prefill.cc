// SPDX-License-Identifier: Apache-2.0
// Differential attention (V1) of a prompt, in f32 and in INT8. Inside a caller's own threads, each call has its own
// workspace and one thread, and gives the same bits.
#include <cmath>
#include <cstdio>
#include <thread>

#include <tare/kernels/attention/float/fused_attention.h>
#include <tare/kernels/attention/integer/executed_attention.h>
#include <tare/quant/base/aligned.h>
#include <tare/quant/base/parallel.h>
#include "random_tensor.h"

int main() {
  constexpr int kTokens = 300, kHeads = 2, kWidth = 64;  // an output head has two maps, and values twice as wide
  const std::vector<float> q = RandomTensor(kTokens * 2 * kHeads * kWidth), k = RandomTensor(q.size()),
                           v = RandomTensor(q.size());
  std::vector<float> exact(v.size()), int8(v.size());
  const float lambda = 0.5f;
  const std::vector<tare::OutputHead> heads = tare::V1Heads(kHeads, kHeads);
  const tare::AttentionProblem problem{.q = tare::DenseHeads(q.data(), kTokens, 2 * kHeads, kWidth),
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
  const auto attend = [&](std::vector<float>& out) {
    tare::AttentionProblem own = problem;
    own.out.data = out.data();
    tare::AlignedBuffer<std::byte> memory(tare::WorkspaceBytes(plan, own));
    tare::ExecutedAttention(plan, own, memory.span());
  };
  attend(int8);  // on all processors
  const double error = RelativeError(int8, exact);
  std::printf("INT8 differential attention is %.2f %% from f32\n", 100 * error);

  std::vector<std::vector<float>> outs(4, std::vector<float>(v.size()));
  std::vector<std::thread> threads;
  for (std::vector<float>& out : outs) {
    threads.emplace_back([&] {
      const tare::ThreadsOfCalls one(1);  // of this thread's calls
      attend(out);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& out : outs)
    if (out != int8) return std::puts("got other bits"), 1;
  std::puts("four threads at once give the bits of one call");
  return error < 0.03 ? 0 : 1;
}
