// SPDX-License-Identifier: Apache-2.0
// Attention over a part of the keys, to be merged with the other parts: of each query, output head and map
//
//   max   m, the row's reference in nats of the scaled attention logits
//   sum   l = sum over the part's keys of exp(s - m)
//   o     O = sum over the part's keys of exp(s - m) V        unnormalised
//
// so that parts of keys can be shared between threads or machines, or come from a cache. Two parts merge by
//   m = max(m1, m2),  l = l1 e^(m1 - m) + l2 e^(m2 - m),  O likewise         (Milakov and Gimelshein, arXiv 1805.02867)
// and O_1 / l_1 - lambda O_2 / l_2 is the result. A part that a row sees nothing of has m = -inf, l = 0, O = 0.
#pragma once

#include <array>

#include "kernels/attention/heads.h"

namespace tare {

// One map's; memory is the caller's. ExecutedPartials (executed_attention.h) writes them.
struct MapPartials {
  float* max = nullptr;  // [T][output heads]
  float* sum = nullptr;  // [T][output heads]
  HeadsView<float> o;    // [T][output heads][slices * width of a slice]
};
using AttentionPartials = std::array<MapPartials, 2>;  // the second is not touched for heads with one map

// The keys of `from` join those of `into`. Shapes must agree.
void MergePartials(const AttentionProblem& problem, const AttentionPartials& from, const AttentionPartials& into);

// Writes problem.out.
void FinishPartials(const AttentionProblem& problem, const AttentionPartials& partials);

}  // namespace tare
