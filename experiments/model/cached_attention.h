// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over their sequences' caches (kernels/decode/): the tokens' keys and values join the caches
// first, so that a query sees those before it and its own.
#pragma once

#include <span>
#include <vector>

#include "experiments/model/float_attention.h"
#include "experiments/model/sequence_cache.h"
#include "kernels/decode/decode_heads.h"
#include "quant/base/aligned.h"

namespace tare {

// What the layers and passes of one model share.
struct DecodeScratch {
  std::vector<DecodeHeads> heads;  // its table, for each window and skip that was met
  AlignedBuffer<std::byte> workspace;
};

// The batch's rows of one sequence.
AttentionProblem SequenceRows(const AttentionSequence& sequence, const AttentionProblem& batch);

// caches: of each sequence. Throws Error for branches, which share no cache, and for values that are not
// finite.
void CachedAttention(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                     std::span<SequenceCache* const> caches, int layer, DecodeScratch& scratch);

}  // namespace tare
