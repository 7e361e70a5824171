// SPDX-License-Identifier: Apache-2.0
// Attention inside a caller's own threads: each call has its own workspace and one thread, and gives the same bits.
#include <cmath>
#include <cstdio>
#include <thread>

#include <tare/kernels/attention/integer/executed_attention.h>
#include <tare/quant/base/aligned.h>
#include <tare/quant/base/parallel.h>
#include "random_tensor.h"

int main() {
  constexpr int kTokens = 200, kHeads = 2, kWidth = 64;
  const std::vector<float> q = RandomTensor(kTokens * kHeads * kWidth), k = RandomTensor(q.size()),
                           v = RandomTensor(q.size());
  const std::vector<tare::OutputHead> heads = tare::StandardHeads(kHeads, kHeads);
  const tare::AttentionPlan plan;  // int8, late order
  const auto attend = [&](std::vector<float>& out) {
    const tare::AttentionProblem problem{.q = tare::DenseHeads(q.data(), kTokens, kHeads, kWidth),
                                         .k = tare::DenseHeads(k.data(), kTokens, kHeads, kWidth),
                                         .v = tare::DenseHeads(v.data(), kTokens, kHeads, kWidth),
                                         .heads = heads,
                                         .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
                                         .out = tare::DenseHeads(out.data(), kTokens, kHeads, kWidth)};
    tare::AlignedBuffer<std::byte> workspace(tare::WorkspaceBytes(plan, problem));
    tare::ExecutedAttention(plan, problem, workspace.span());
  };
  std::vector<float> whole(q.size());
  attend(whole);  // on all processors

  std::vector<float> outs[4];
  std::vector<std::thread> threads;
  for (std::vector<float>& out : outs) {
    threads.emplace_back([&] {
      const tare::ThreadsOfCalls one(1);  // of this thread's calls
      out.resize(q.size());
      attend(out);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& out : outs)
    if (out != whole) return std::puts("got other bits"), 1;
  std::puts("four threads at once give the bits of one call");
  return 0;
}
