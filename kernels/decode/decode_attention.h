// SPDX-License-Identifier: Apache-2.0
// Attention of the newest tokens over a cache: for each of T queries, the last of which is the cache's last token,
//
//   out[t, h] = softmax(s q[t, q1] k[:, k1]) V_h  -  lambda[t, h] softmax(s q[t, q2] k[:, k2]) V_h       (heads.h)
//
// over the keys up to its own, or a window of them. Many sequences in one call. Each page is read once for all heads
// and queries that share it, both maps and values in one pass (an online softmax by page); codes stay packed until they
// are in registers. Queries and probabilities are 15-bit integers beside codes (panel_product.h), f32 beside f32 and
// bf16: the result is that of exact attention over the dequantized cache within 1e-3 of ||P1 V|| + lambda ||P2 V||.
//
// Keys are cut into at most kMostChunks runs of pages by the cache's length alone, and their (max, sum, output) merged
// in order: the same bits on any number of threads, and over codes on any instruction set.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/attention/heads.h"
#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"

namespace tare {

// One sequence's part of a call.
struct DecodeSequence {
  const KvCache* cache = nullptr;
  HeadsView<const float> q;  // [T][q heads][d]
  LambdaView lambda;         // not read for heads with one map
  HeadsView<float> out;      // [T][heads][slices * width of v]
};

inline constexpr int64_t kMostChunks = 16;  // of a sequence's keys
inline constexpr int64_t kFewestPages = 8;  // of a chunk, but the last
inline constexpr int64_t kFewestUnits = 8;  // of chunks times runs of groups, where there are so many groups

// Bytes of workspace, aligned to 64; they grow with T, and stop growing with the caches at kMostChunks.
size_t DecodeWorkspaceBytes(const DecodeHeads& table, std::span<const DecodeSequence> sequences);

// Pages of values, a group's each: how many there were, and how many a table's skip= left unread.
struct ValuePages {
  int64_t all = 0, skipped = 0;
};

// Writes every out; over an empty cache, or no visible key, zeros. Returns what was read. Throws Error, before anything
// is written, for shapes that differ from the table's, queries that are not finite, and a workspace too small or
// misaligned.
ValuePages DecodeAttention(const DecodeHeads& table, std::span<const DecodeSequence> sequences,
                           std::span<std::byte> workspace);

}  // namespace tare
