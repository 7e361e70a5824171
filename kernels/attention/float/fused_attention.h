// SPDX-License-Identifier: Apache-2.0
// Attention in f32, or with bf16 factors of its products, by the same plan as the integer kernels' early order:
// exponentials of a block of rows for all keys, then one product of the maps' difference with V. Exponentials and sums
// are f32 in both. It is the baseline of the integer kernels, built from the same code; models do not run on it. Memory
// comes from the caller; results are the same bits on any number of threads. Several threads may call at once, each
// with a workspace of its own.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/attention/heads.h"
#include "kernels/product/tile_product.h"

namespace tare {

// types: of products, kF32 or kBf16. Workspace bytes, 64-aligned: packed K, V; 4 MiB per thread up to 24,576 keys.
size_t FusedWorkspaceBytes(const AttentionProblem& problem, ProductTypes types = ProductTypes::kF32);

// Writes problem.out. Throws Error for what CheckProblem refuses, heads wider than 1,024, types of integers, a
// workspace too small or misaligned, and, with some of the output written, for what makes a row NaN: NaN or infinity in
// what it sees of Q, K and V, in lambda, and a largest logit of kMostLogit or more in magnitude (heads.h).
void FusedAttention(const AttentionProblem& problem, std::span<std::byte> workspace,
                    ProductTypes types = ProductTypes::kF32);

}  // namespace tare
