// SPDX-License-Identifier: Apache-2.0
// Two answers to one prompt over a forked INT4 cache: its pages are shared until one of them writes.
#include <cmath>
#include <cstdio>

#include <tare/kernels/attention/float/fused_attention.h>
#include <tare/kernels/decode/decode_attention.h>
#include <tare/quant/base/aligned.h>
#include "random_tensor.h"

int main() {
  constexpr int kPrompt = 500, kHeads = 4, kKvHeads = 2, kWidth = 64;  // standard heads
  const tare::CacheShape shape{.k_heads = kKvHeads, .k_width = kWidth, .v_heads = kKvHeads, .v_width = kWidth};
  const tare::CacheRule int4{.format = tare::Format::kInt4};
  const std::vector<float> k = RandomTensor(kPrompt * kKvHeads * kWidth), v = RandomTensor(k.size());
  tare::KvCache cache(shape, {.k = int4, .v = int4});
  cache.Append(tare::DenseHeads(k.data(), kPrompt, kKvHeads, kWidth),
               tare::DenseHeads(v.data(), kPrompt, kKvHeads, kWidth));

  tare::KvCache other = cache;  // a fork
  const std::vector<float> next_k = RandomTensor(kKvHeads * kWidth), next_v = RandomTensor(next_k.size());
  other.Append(tare::DenseHeads(next_k.data(), 1, kKvHeads, kWidth),
               tare::DenseHeads(next_v.data(), 1, kKvHeads, kWidth));

  const float scale = 1 / std::sqrt(static_cast<float>(kWidth));
  const std::vector<tare::OutputHead> heads = tare::StandardHeads(kHeads, kKvHeads);
  const tare::DecodeHeads table(heads, kHeads, shape, scale);
  const std::vector<float> q = RandomTensor(2 * kHeads * kWidth);
  std::vector<float> out(q.size());
  tare::DecodeSequence sequences[2];
  for (int i = 0; i < 2; ++i) {
    sequences[i] = {.cache = i == 0 ? &cache : &other,
                    .q = tare::DenseHeads(q.data() + i * kHeads * kWidth, 1, kHeads, kWidth),
                    .out = tare::DenseHeads(out.data() + i * kHeads * kWidth, 1, kHeads, kWidth)};
  }
  tare::AlignedBuffer<std::byte> workspace(tare::DecodeWorkspaceBytes(table, sequences));
  tare::DecodeAttention(table, sequences, workspace.span());

  // The same by prefill over what the fork holds.
  const int tokens = static_cast<int>(other.tokens());
  std::vector<float> read_k(tokens * kKvHeads * kWidth), read_v(read_k.size()), again(kHeads * kWidth);
  other.Read(0, tare::DenseHeads(read_k.data(), tokens, kKvHeads, kWidth),
             tare::DenseHeads(read_v.data(), tokens, kKvHeads, kWidth));
  const tare::AttentionProblem problem{.q = sequences[1].q,
                                       .k = tare::DenseHeads<const float>(read_k.data(), tokens, kKvHeads, kWidth),
                                       .v = tare::DenseHeads<const float>(read_v.data(), tokens, kKvHeads, kWidth),
                                       .heads = heads,
                                       .scale = scale,
                                       .out = tare::DenseHeads(again.data(), 1, kHeads, kWidth)};
  workspace.Reserve(tare::FusedWorkspaceBytes(problem));
  tare::FusedAttention(problem, workspace.span());
  const double error = RelativeError({out.begin() + kHeads * kWidth, out.end()}, again);
  std::printf("a cache of %zu bytes per token; decoding is %.1e from attention over what it holds\n",
              cache.Bytes() / kPrompt, error);
  return error < tare::kDecodeBound ? 0 : 1;
}
