// SPDX-License-Identifier: Apache-2.0
// Uses tare::kernels alone, as a kernel engineer would: no model, no file. A query that sees one key returns its value.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/attention/float/fused_attention.h"
#include "quant/base/aligned.h"

int main() {
  constexpr int kWidth = 16;
  std::array<float, kWidth> x = {}, out = {};
  for (int i = 0; i < kWidth; ++i) x[i] = static_cast<float>(i);

  const std::vector<tare::OutputHead> heads = tare::StandardHeads(1, 1);
  const tare::HeadsView<const float> row = tare::DenseHeads<const float>(x.data(), 1, 1, kWidth);
  const tare::AttentionProblem problem{
      .q = row, .k = row, .v = row, .heads = heads, .out = tare::DenseHeads(out.data(), 1, 1, kWidth)};
  tare::AlignedBuffer<std::byte> workspace(tare::FusedWorkspaceBytes(problem));
  tare::FusedAttention(problem, workspace.span());
  for (int i = 0; i < kWidth; ++i) {  // the one weight is 1, but for rounding
    if (std::abs(out[i] - x[i]) > 1e-5f * x[i]) return std::puts("use_kernels: got another value than there is"), 1;
  }
  return 0;
}
