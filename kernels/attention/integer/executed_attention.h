// SPDX-License-Identifier: Apache-2.0
// Attention in integers: standard, V1 and V2 heads, Q and K in int8/6/4 a token, V in int8/6/4 a block and channel or a
// channel, softmax probabilities (late order) or their difference (early order) as codes with one scale a row and key
// block. See code_stage.h for the formulas.
//
// Memory comes from the caller: nothing is allocated in the call but what oneDNN allocates. Results are the same bits
// on any number of threads.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/attention/heads.h"
#include "quant/format/format.h"

namespace tare {

// The part of a plan that attention executes.
struct AttentionPlan {
  enum class Order { kLate, kEarly };           // maps subtracted after P x V, or before
  enum class ValueScale { kBlock, kSequence };  // a scale a block and channel, or a channel (which looks ahead)

  Format q = Format::kInt8;
  Format k = Format::kInt8;
  Format v = Format::kInt8;
  ValueScale v_scale = ValueScale::kBlock;
  Format logits = Format::kF32;  // int8, int6, int4: codes with a row's absmax, see logit_stage.h; f32: as they are
  Order order = Order::kLate;
  Format p = Format::kU8;  // of the probabilities (u8 u6 u4) or of the difference (the same with a zero point, or int)
  int block = 256;         // keys that share a scale of p, and of v: a multiple of 64 up to 1024

  // Constant vectors subtracted before quantizing; null: none. They change no result but the rounding: what Q's mean
  // adds to a key's logits is known (key_bias.h), softmax does not see what all keys have in common, and of V's mean
  // each output row has (sum of P1) - lambda (sum of P2) times, added back.
  const float* q_mean = nullptr;  // [q heads][d]
  const float* k_mean = nullptr;  // [k heads][d]
  const float* v_mean = nullptr;  // [v heads][width of a slice]
};

// Throws Error for a plan that the kernels cannot execute on this problem.
void CheckPlan(const AttentionPlan& plan, const AttentionProblem& problem);

// Bytes of the caller's workspace (with the means that the call will have), any content, aligned to 64: packed K and V,
// and at most 4 MiB a thread (of ParallelFor).
size_t WorkspaceBytes(const AttentionPlan& plan, const AttentionProblem& problem);

// Writes problem.out. Throws Error for what CheckProblem or CheckPlan refuse, a workspace too small or misaligned, and
// NaN or Inf in Q, K or V.
void ExecutedAttention(const AttentionPlan& plan, const AttentionProblem& problem, std::span<std::byte> workspace);

}  // namespace tare
