// SPDX-License-Identifier: Apache-2.0
// The gradient of attention (kernels/attention/heads.h) by its queries, keys, values and lambdas. For an output head
// with G = dO V^T and maps P1, P2 (recomputed, nothing of [T, T] is kept):
//
//   dV = (P1 - lambda P2)^T dO      dP1 = G, dP2 = -lambda G       dlambda = -sum over keys of P2 * G
//   dS = P * (dP - sum over keys of P * dP)       dQ = s dS K,  dK = s dS^T Q
//
// A sink is one more key without a value: it is in P's sums alone. The same formulas as FlashAttention's backward pass
// (arXiv 2205.14135, appendix B.2), for one map after another.
#pragma once

#include <span>
#include <vector>

#include "experiments/model/attention/float_attention.h"
#include "kernels/attention/heads.h"

namespace tare {

// Gradients of the sum of `out` times problem.out, in the shapes of problem.q, k, v and lambda. Views that share
// memory with others of the call are not allowed, but for out with problem.out, which is not read.
struct AttentionGradients {
  HeadsView<const float> out;  // d loss / d problem.out
  HeadsView<float> q, k, v;
  float* lambda = nullptr;  // [T][output heads], of heads with two maps; null: not asked for
};

// Indices of output heads, so grouped that heads of two groups share no queries, keys or values: the gradients of each
// group add up in places of its own.
std::vector<std::vector<int>> GroupsThatShare(std::span<const OutputHead> heads);

// Of whole sequences without branches; rows of no sequence stay as they are. Products and their sums are f32, sums of
// P * dP double. Sequences, and heads that share no queries, keys or values, go on threads of their own; the result
// does not depend on them. Memory per thread: three times a head's keys, of two maps, twice its values, and three
// blocks of 64 queries by a sequence's keys.
void AttentionGradient(const AttentionProblem& problem, std::span<const AttentionSequence> sequences,
                       const AttentionGradients& gradients);

}  // namespace tare
