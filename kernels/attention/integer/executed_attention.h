// SPDX-License-Identifier: Apache-2.0
// Attention in integers: standard, V1 and V2 heads, Q and K in int8/6/4 per token or per group of tokens, V in int8/6/4
// per block and channel, per channel or per head, softmax probabilities (late order) or their difference (early order)
// as codes with one scale per row and key block, probabilities also with one per row (code_stage.h).
//
// Memory comes from the caller: only oneDNN allocates. Results are the same bits on any number of threads. Several
// threads may call at once, each with its own workspace, for as many threads as its call (parallel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention/heads.h"
#include "quant/format/format.h"

namespace tare {

inline constexpr int kLargestBlock = 1024;  // keys that share a scale of the probabilities

// A row of Q less its mean with a scale below this is taken for the mean alone: codes 0, scale 1 (packing.h). Far
// below any logit that counts; its inverse times a key's bias is finite.
inline constexpr float kMeanOnlyScale = 0x1p-64f;

// The part of a plan that these kernels execute.
struct AttentionPlan {
  enum class Order { kLate, kEarly };  // maps subtracted after P x V, or before
  // A scale per block and channel, or, looking ahead, per channel, or one for the head.
  enum class ValueScale { kBlock, kSequence, kHead };
  enum class ProbScale { kBlock, kRow };  // a scale per row and key block, or per row

  Format q = Format::kInt8;
  Format k = Format::kInt8;
  Format v = Format::kInt8;
  ValueScale v_scale = ValueScale::kBlock;
  Format logits = Format::kF32;  // int8, int6, int4: codes with a row's absmax, see score_stage.h; f32: as they are
  Order order = Order::kLate;
  // late: u8 u6 u4; early, of the difference: the same with a zero point, or int8 int6 int4
  Format probs = Format::kU8;
  int block = 256;  // keys that share a scale of probs, and of v: a multiple of 64 up to kLargestBlock

  // Late maps may differ here. top: what the largest probability of a scale becomes; 0: the largest code. unnormalized:
  // rows are divided by the sum of exponentials, not codes, and need not sum to 1, so V has no mean.
  ProbScale prob_scale = ProbScale::kBlock;
  float top = 0;
  bool unnormalized = false;

  // Constant vectors subtracted before quantizing; null: none. They change no result but the rounding: what Q's mean
  // adds to a key's logits is known (packing.h), softmax does not see what all keys have in common, and of V's mean
  // each output row has (sum of P1) - lambda (sum of P2) times, added back. Sinks allow only Q's.
  const float* q_mean = nullptr;  // [q heads][d]
  const float* k_mean = nullptr;  // [k heads][d]
  const float* v_mean = nullptr;  // [v heads][width of a slice]

  // Magnitudes, less the mean, that a token's scale must cover, those of tokens that share it; null: each has its own.
  const float* q_absmax = nullptr;  // [q heads][T]
  const float* k_absmax = nullptr;  // [k heads][S]

  float LargestProb() const { return top > 0 ? top : static_cast<float>(Info(probs).max_code); }
};

// Throws Error for a plan that the kernels cannot execute on this problem.
void CheckPlan(const AttentionPlan& plan, const AttentionProblem& problem);

// Workspace bytes (with the call's means), any content, 64-aligned: K and V packed, at most 4 MiB per thread.
size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem);

// Writes problem.out. Throws Error for what CheckProblem or CheckPlan refuse, a workspace too small or misaligned, NaN
// or Inf in Q, K, V or lambda, and, with some of the output written, for a query's largest logit of kMostLogit or more
// in magnitude (heads.h; of quantized logits: any of its logits).
void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace);

inline constexpr int64_t kSmoothingTokens = 64;

// The vector that +smooth subtracts from Q, K or V before quantizing: each head and channel's mean over the first
// tokens, which later tokens do not change; +smoothall takes all. Only rounding differs (AttentionPlan). Source:
// SageAttention, arXiv 2410.02367, section 4.2 (K), and SageAttention2, arXiv 2411.10958 (Q): all tokens' mean.
//
// Writes mean [heads][width]. x.tokens, tokens >= 1.
void MeanOfPrefix(const FloatHeads<const float>& x, float* mean, int64_t tokens = kSmoothingTokens);

}  // namespace tare
