// SPDX-License-Identifier: Apache-2.0
// Attention of the newest tokens over a cache: for each of T queries, the last of which is the cache's last token,
//
//   out[t, h] = softmax(s q[t, q1] k[:, k1]) V_h  -  lambda[t, h] softmax(s q[t, q2] k[:, k2]) V_h       (heads.h)
//
// over the keys up to its own, or a window of them. Many sequences in one call. Two passes: one over the keys of all
// pages, which keeps both maps' exponentials (page_softmax.h), 4 bytes per key, map and query; then, their sums known,
// one over the values, times the difference of the maps: one row where the formula has two. Each reads its memory
// straight on, once for all heads and queries that share it; codes stay packed until they are in registers.
//
// Queries and differences are 15-bit integers beside codes (panel_product.h), and f32 beside f32 and bf16: the result
// is that of exact attention over the dequantized cache within the bounds of decode_reference.h.
//
// A part's exponentials hang on nothing but the part; values are summed in at most kMostChunks runs of pages, cut by
// the cache's length alone, and those in order: the same bits on any number of threads, and over codes on any
// instruction set.
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
  HeadsView<const float> q;           // [T][q heads][d]
  LambdaView lambda;                  // not read for heads with one map
  HeadsView<float> out;               // [T][heads][slices * width of v]
  int64_t newer = 0;                  // tokens of the cache after the last query's, which no query sees
  std::span<const float> sinks = {};  // [q heads] (heads.h), or none
};

// Bytes of workspace, aligned to 64; they grow with the caches by 4 per key, map and query, and with T until that is
// kMostKeptBytes (decode_work.h) of a sequence.
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
