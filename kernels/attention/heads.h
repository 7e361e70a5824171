// SPDX-License-Identifier: Apache-2.0
// Attention's arguments. Strided views [token][head][width] of queries, keys, values and outputs, in f32 or in 16 bits.
// A kernel that takes both (of prefill) widens rows of 16 bits where it packs them, a block at a time, and rounds its
// outputs once, to the nearest, ties to even: the bits of the call in f32 on the widened inputs, rounded.
//
// With them come the arguments of every attention kernel and reference here. A table with one row per output head says
// which heads belong together:
//
//   out[t, h] = softmax(s q[t, q1] k[:, k1]) V_h  -  lambda[t, h] softmax(s q[t, q2] k[:, k2]) V_h
//   V_h       = v[:, v[0]], or v[:, v[0]] and v[:, v[1]] side by side
//
// and only the first map where q2 = kNoMap: standard, V1, V2, grouped ratios and each checkpoint's order of heads are
// data. T queries, S keys, d width of q and k. The head norm and (1 - lambda_init) of V1 are separate steps.
//
// A query head may have a sink (gpt-oss), a learned logit that only its map's sum has: with x = s q k,
//
//   p[s] = exp(x[s] - m) / (exp(sink - m) + sum exp(x - m)),   m = max(sink, max x)
//
// so that a row sums to less than 1. It is one more key without a value, and -inf is none. Logits may have a soft cap
// (Gemma 2, arXiv 2408.00118): x = cap tanh(s q k / cap).
//
// Softpick (arXiv 2504.20966) takes the place of the softmax where a problem says so, with e = 1e-8 beside exp(-m):
//
//   p[s] = max(exp(x[s] - m) - exp(-m), 0) / (sum |exp(x - m) - exp(-m)| + e),   m = max(0, max x)
//
// Rows sum to at most 1, and to 0 where no logit is positive. A constant added to a row changes it.
//
// Other variants (kVariants): threshold (TDA, arXiv 2601.12145) of n visible keys, of q and k of length 1 with s = 1,
//
//   p[s] = max(x[s] - tau, 0)^2,   tau = beta sqrt(2 ln(n) / d)      rows are not divided by their sums
//
// and the integral map G of DINT (2501.17486), the mean over queries of the first map: out = (P1 - lambda (P2 - G)) V.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "quant/base/float16.h"

namespace tare {

// [tokens][heads][width], the last dense; strides in values, any sign or overlap that stays inside the caller's memory.
template <typename T>
struct HeadsView {
  T* data = nullptr;
  int64_t tokens = 0;
  int heads = 0;
  int width = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  T* Row(int64_t token, int head) const { return data + Offset(token, head); }
  int64_t Offset(int64_t token, int head) const { return token * token_stride + head * head_stride; }
};

// Dense memory laid out [tokens][heads][width], as a projection leaves it.
template <typename T>
HeadsView<T> DenseHeads(T* data, int64_t tokens, int heads, int width) {
  return {data, tokens, heads, width, int64_t{heads} * width, width};
}

enum class HalfType { kBf16, kF16 };  // quant/base/float16.h

// f32 in `data`; or 16-bit floats in `halves`, and no data.
template <typename T>  // float or const float
struct FloatHeads : HeadsView<T> {
  using Half = std::conditional_t<std::is_const_v<T>, const uint16_t, uint16_t>;

  FloatHeads() = default;
  FloatHeads(const HeadsView<T>& x) : HeadsView<T>(x) {}
  FloatHeads(T* data, int64_t tokens, int heads, int width, int64_t token_stride, int64_t head_stride)
      : HeadsView<T>{data, tokens, heads, width, token_stride, head_stride} {}
  FloatHeads(const HeadsView<Half>& x, HalfType a_type)
      : HeadsView<T>{nullptr, x.tokens, x.heads, x.width, x.token_stride, x.head_stride},
        halves(x.data),
        type(a_type) {}

  float At(int64_t token, int head, int i) const {
    if (halves == nullptr) return this->Row(token, head)[i];
    const uint16_t half = halves[this->Offset(token, head) + i];
    return type == HalfType::kBf16 ? FloatFromBf16(half) : FloatFromF16(half);
  }

  Half* halves = nullptr;
  HalfType type = HalfType::kBf16;
};

inline FloatHeads<const float> ReadOnly(const FloatHeads<float>& x) {
  FloatHeads<const float> read(
      HeadsView<const float>{x.data, x.tokens, x.heads, x.width, x.token_stride, x.head_stride});
  read.halves = x.halves, read.type = x.type;
  return read;
}

// Rows first .. first + count - 1 of a head, those that there are, in f32: x itself, or a view, by the same numbers, of
// memory [count][width] with them widened, whose other rows must not be read.
HeadsView<const float> Widened(const FloatHeads<const float>& x, int head, int64_t first, int64_t count, float* memory);
// Writes n values to a row of `out` from column `first` on.
void StoreRow(const FloatHeads<float>& out, int64_t token, int head, int64_t first, const float* values, int64_t n);

inline constexpr int kMostHeads = 1 << 16;  // of a view; and 2^40 values: a broadcast view takes no memory
// What is wrong with a view, "got a null pointer for 3 tokens"; empty: nothing.
std::string WrongIn(const FloatHeads<const float>& x);

inline constexpr int kNoMap = -1;

struct OutputHead {
  int q1 = 0;
  int k1 = 0;
  int q2 = kNoMap;
  int k2 = kNoMap;
  std::array<int, 2> v = {0, kNoMap};  // V slices side by side; one, or two

  bool Differential() const { return q2 != kNoMap; }
  int Maps() const { return Differential() ? 2 : 1; }
  int Q(int map) const { return map == 0 ? q1 : q2; }  // map: from 0
  int K(int map) const { return map == 0 ? k1 : k2; }
  int VSlices() const { return v[1] == kNoMap ? 1 : 2; }
};

// lambda of (token, output head); strides of 0 share one value. Never read for heads with one map.
struct LambdaView {
  const float* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  float At(int64_t token, int64_t head) const { return data[token * token_stride + head * head_stride]; }
};

struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;  // begin == end: the row sees no key, and its output is zero
};

// causal: query t of T sees keys up to t + S - T + shift, so that the last query sees the last key (FlashAttention);
// window: of those the last `window`. shift: keys between the last of these S and the last query's, if S are a part.
struct Mask {
  enum class Kind { kFull, kCausal, kWindow };
  Kind kind = Kind::kCausal;
  int64_t window = 0;
  int64_t shift = 0;

  // Query t sees keys up to t, as is_causal of PyTorch's scaled_dot_product_attention has it.
  static Mask CausalFromStart(int64_t T, int64_t S) { return {.kind = Kind::kCausal, .shift = T - S}; }

  KeyRange Keys(int64_t t, int64_t T, int64_t S) const {
    if (kind == Kind::kFull) return {0, S};
    const int64_t last = t + 1 + S - T + shift, end = std::clamp<int64_t>(last, 0, S);
    return {kind == Kind::kWindow && last > window ? std::min(last - window, end) : 0, end};
  }
};

enum class RowWeights : uint8_t { kSoftmax, kSoftpick, kThreshold };
inline constexpr double kSoftpickEpsilon = 1e-8;  // of the authors' plain function; their kernel has 1e-6

// The queries whose first maps G is the mean of: those up to a row's own, or all, later ones too, which then leak.
enum class Integral : uint8_t { kNone, kCausal, kAll };

struct Variant {
  std::string_view name;
  RowWeights weights = RowWeights::kSoftmax;
  Integral integral = Integral::kNone;
};
inline constexpr Variant kVariants[]{{"softmax"},
                                     {"softpick", RowWeights::kSoftpick},
                                     {"threshold", RowWeights::kThreshold},
                                     {"dint", RowWeights::kSoftmax, Integral::kCausal},
                                     {"dint-all", RowWeights::kSoftmax, Integral::kAll}};
std::string_view VariantName(RowWeights weights, Integral integral = Integral::kNone);

struct AttentionProblem {
  FloatHeads<const float> q;  // [T][q heads][d]
  FloatHeads<const float> k;  // [S][k heads][d]
  FloatHeads<const float> v;  // [S][v heads][width of a slice]
  std::span<const OutputHead> heads;
  LambdaView lambda;
  Mask mask;
  float scale = std::numeric_limits<float>::quiet_NaN();  // of the attention logits, usually 1 / sqrt(d); required
  float softcap = 0;                                      // of scaled logits, before the mask; 0: none
  std::span<const float> sinks = {};                      // [q heads], beside scaled and capped logits; empty: none
  RowWeights weights = RowWeights::kSoftmax;              // others: FloatAttention, without sinks and lse
  Integral integral = Integral::kNone;                    // others: FloatAttention, two maps a head
  float beta = 0;                                         // of the threshold: a later key would pass one below 0
  FloatHeads<float> out;  // [T][heads.size()][slices * width of a slice], in memory of its own
  // [T][heads.size()][maps], or none: the natural logarithm of each row's sum of exp(x), a sink's included, with which
  // outputs over parts of the keys become one; -infinity where a row sees nothing.
  HeadsView<float> lse = {};

  bool HasHalves() const {
    return q.halves != nullptr || k.halves != nullptr || v.halves != nullptr || out.halves != nullptr;
  }
  KeyRange Keys(int64_t t) const { return mask.Keys(t, q.tokens, k.tokens); }  // that query t sees
  float Sink(int q_head) const {
    return sinks.empty() ? -std::numeric_limits<float>::infinity() : sinks[static_cast<size_t>(q_head)];
  }
};

// Throws Error unless each query head, or none, has a sink, of less than kMostLogit in magnitude, or -infinity.
void CheckSinks(std::span<const float> sinks, int q_heads, const char* where);
// Throws Error for a soft cap that is not 0 or a finite number above it.
void CheckSoftcap(float softcap, const char* where);
// Throws Error unless the table's indices are inside the views, shapes agree and no product of sizes can overflow.
void CheckProblem(const AttentionProblem& problem);
// Throws Error, naming the place, for values of q, k or v that are not finite; and of one row of `name`.
void CheckFinite(const AttentionProblem& problem);
void CheckRow(const char* name, const FloatHeads<const float>& x, int64_t token, int head);
// Throws Error, starting with where, for another variant.
void CheckSoftmax(std::string_view where, const AttentionProblem& problem);
// Throws Error, starting with where, for 16-bit floats.
void CheckF32(const char* where, const AttentionProblem& problem);
// These queries over these keys: one of several sequences, one after another in q, k, v and out (cumulative lengths).
AttentionProblem PartOf(const AttentionProblem& problem, KeyRange queries, KeyRange keys);
// Writes the lse of a map of output head `head`, if it is asked for.
void WriteLse(const AttentionProblem& problem, int64_t t, int64_t head, int map, double lse);

// Beside CheckProblem, before anything is computed: throws Error, naming the place, for lambdas of heads with two maps
// that are not finite, and where out lies in q, k or v (of views that are not dense, where one begins in the other).
void CheckMemory(const AttentionProblem& problem);

// What a query's largest scaled attention logit must stay below in magnitude, in the kernels of prefill. Beyond,
// logits in f32 are no longer as near to each other as the exponential takes them to be, or overflow.
inline constexpr float kMostLogit = 0x1p30f;
[[noreturn]] void FailLogit(int64_t query, int q_head);  // throws Error

inline constexpr int kLargestWidth = 1024;  // of a head of Q, K or V that the fast kernels take
// Throws Error for wider ones.
void CheckWidths(const AttentionProblem& problem);

// (query, key) pairs that the mask lets through, times output heads: what "ns per pair" divides by.
int64_t CountPairs(const AttentionProblem& problem);

// The tables of the families. heads: output heads; kv: what the family calls its number of key/value heads.
//   standard    heads q heads, kv k heads, kv v heads
//   V1          unilm's flash pairing: maps 2h and 2h + 1 of q, of 2 kv k heads; kv wide v heads
//   DiffLlama   q_heads / 2 output heads: map j with j + q_heads / 2, V of two slices
//   halves      maps h and heads + h of q, each over its half of 2 kv k heads; kv v heads (Stable Audio 3)
//   V2          2 heads q heads over kv k and v heads
//   grouped     q_heads in `noise` groups, the last of each the second map of all others; k heads in pairs, V of two
//               slices, those of its pair. V1 where noise = q_heads / 2, its wide v heads two slices each
std::vector<OutputHead> StandardHeads(int heads, int kv);
std::vector<OutputHead> V1Heads(int heads, int kv);
std::vector<OutputHead> HalvesHeads(int heads, int kv);
std::vector<OutputHead> DiffLlamaHeads(int q_heads, int kv);
std::vector<OutputHead> V2Heads(int heads, int kv);
std::vector<OutputHead> GroupedHeads(int q_heads, int noise, int kv);

// ---- Reference (reference_attention.cc)
//
// In double, three loops, no code shared with the kernels. It tests every fast path. A row without keys gives zeros.
//
// [T][heads][width of out]; writes problem.lse. Throws Error for a problem that CheckProblem refuses.
std::vector<double> ReferenceAttentionDouble(const AttentionProblem& problem);

// ||P1 V|| + lambda ||P2 V|| of every (token, head): the size that a difference is small against. [T][heads]
std::vector<double> ReferenceMagnitudes(const AttentionProblem& problem);

}  // namespace tare
