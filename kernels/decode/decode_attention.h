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
// Queries and differences are 15-bit integers beside integers (panel_product.h), and f32 beside f32, bf16, FP8 and
// lists: the result is that of exact attention over the dequantized cache within kDecodeBound.
//
// A part's exponentials hang on nothing but the part; values are summed in at most kMostChunks runs of pages, cut by
// the cache's length alone, and those in order: the same bits on any number of threads, and over integers on any
// instruction set. Several threads may call at once, each with a workspace of its own, over caches that none writes to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/attention/heads.h"
#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"

namespace tare {

struct DecodeSequence {
  const KvCache* cache = nullptr;
  HeadsView<const float> q;           // [T][q heads][d]
  LambdaView lambda;                  // not read for heads with one map
  HeadsView<float> out;               // [T][heads][slices * width of v]
  int64_t newer = 0;                  // tokens of the cache after the last query's, which no query sees
  std::span<const float> sinks = {};  // [q heads] (heads.h), or none
  HeadsView<float> lse = {};          // [T][heads][maps], or none: as of an AttentionProblem (heads.h)
};

// Workspace bytes, 64-aligned; 4 per key, map and query, T counting until kMostKeptBytes (decode_work.h) of a sequence.
size_t DecodeWorkspaceBytes(const DecodeHeads& table, std::span<const DecodeSequence> sequences);

// Pages of values, a group's each: how many there were, and how many a table's skip= left unread.
struct ValuePages {
  int64_t all = 0, skipped = 0;
};

// Writes every out; over an empty cache, or no visible key, zeros. Returns what was read. Throws Error, before anything
// is written, for shapes that differ from the table's, queries and lambdas that are not finite, queries and keys so
// large that sums of their products may overflow, and a workspace too small or misaligned.
ValuePages DecodeAttention(const DecodeHeads& table, std::span<const DecodeSequence> sequences,
                           std::span<std::byte> workspace);

// How much attention each key of a cache gets, by which policies choose keys (H2O, arXiv 2306.14048; SnapKV, arXiv
// 2404.14469): summed over queries and a group's heads (decode_heads.h), which share keys or values and keep the same.
//
//   maps         sum of P over all maps
//   difference   sum of |P1 - lambda P2| over output heads; of heads with one map P: what an output is made of
enum class KeyMass { kMaps, kDifference };

// Adds to mass[group][token], each of at least as many tokens as the cache has. Keys are read twice; out is not written
// and V not read. The sequence is as DecodeAttention takes it, and so refused.
void AddKeyMass(KeyMass of, const DecodeHeads& table, const DecodeSequence& s, std::span<std::vector<float>> mass);

// Decoding beside integers differs from the truth by less than kDecodeBound (1 + the row's largest |logit|) of ||P1 V||
// + lambda ||P2 V||. A query is off by half a 16256th of its largest value, some 3 standard deviations, which moves a
// logit of standard normal queries and keys by 5e-5 and a row by 1e-4; a difference is off by as much.
inline constexpr double kDecodeBound = 5e-4;

// The exact results of one output head.
struct DecodeTruth {
  std::vector<double> out;         // [T][slices * width of v]
  std::vector<double> magnitudes;  // [T]: ||P1 V|| + lambda ||P2 V||
  std::vector<double> bounds;      // [T] of ||error|| beside integers
};

// What DecodeAttention computes, by the double reference of attention over the cache read back as f32, token by token,
// sharing nothing with the kernel. Row `number` of a head table; scale, window, softcap as DecodeHeads. Empty: zeros.
DecodeTruth ReferenceDecode(const OutputHead& head, int number, float scale, int64_t window, const DecodeSequence& s,
                            float softcap = 0);

}  // namespace tare
