// SPDX-License-Identifier: Apache-2.0
// Uses tare::kernels alone, as a kernel engineer would: no model, no file. A query that sees one key returns its value.
#include <array>
#include <cstdio>
#include <vector>

#include "experiments/model/float_attention.h"

int main() {
  constexpr int kWidth = 16;
  std::array<float, kWidth> q = {}, k = {}, v = {}, out = {};
  for (int i = 0; i < kWidth; ++i) q[i] = k[i] = v[i] = static_cast<float>(i);

  const std::vector<tare::OutputHead> heads = tare::StandardHeads(1, 1);
  const std::array<tare::AttentionSequence, 1> sequences = {tare::AttentionSequence{.prefix = 1}};
  tare::FloatAttentionCall call;
  call.q = tare::DenseHeads<const float>(q.data(), 1, 1, kWidth);
  call.k = tare::DenseHeads<const float>(k.data(), 1, 1, kWidth);
  call.v = tare::DenseHeads<const float>(v.data(), 1, 1, kWidth);
  call.out = tare::DenseHeads(out.data(), 1, 1, kWidth);
  call.heads = heads;
  call.sequences = sequences;
  tare::FloatAttention(call);
  if (out != v) return std::puts("use_kernels: got another value than the only one there is"), 1;
  return 0;
}
