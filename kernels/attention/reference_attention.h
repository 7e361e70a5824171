// SPDX-License-Identifier: Apache-2.0
// The reference for attention: double, three loops, no code shared with the kernels. It tests every fast path.
//
//   x_m[s]    = scale q_m . k_m[s]                 over the keys s that the mask lets through
//   p_m[s]    = exp(x_m[s] - max x_m) / sum        the maximum and the sum with the query head's sink, if it has one
//   out[t, h] = sum_s (p_1[s] - lambda[t, h] p_2[s]) v[s]
//
// A row that sees no key gives zeros.
#pragma once

#include <vector>

#include "kernels/attention/heads.h"

namespace tare {

// [T][heads][width of out]; writes problem.lse. Throws Error for a problem that CheckProblem refuses.
std::vector<double> ReferenceAttentionDouble(const AttentionProblem& problem);

// ||P1 V|| + lambda ||P2 V|| of every (token, head): the size that a difference is small against. [T][heads]
std::vector<double> ReferenceMagnitudes(const AttentionProblem& problem);

}  // namespace tare
