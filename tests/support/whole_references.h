// SPDX-License-Identifier: Apache-2.0
// The references of attention for a whole problem: each writes problem.out.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/attention/heads.h"
#include "tests/support/quantized_reference.h"

namespace tare {

// Throws Error for a problem that CheckProblem refuses.
inline void ReferenceAttention(const AttentionProblem& problem) {
  const std::vector<double> values = ReferenceAttentionDouble(problem);
  for (int64_t t = 0; t < problem.q.tokens; ++t) {
    for (int h = 0; h < problem.out.heads; ++h) {
      const double* row = values.data() + (t * problem.out.heads + h) * problem.out.width;
      const std::vector<float> rounded(row, row + problem.out.width);
      StoreRow(problem.out, t, h, 0, rounded.data(), problem.out.width);
    }
  }
}

// Throws Error for a plan or a problem that the kernels refuse, also where there are no queries.
inline void QuantizedReference(const AttentionPlan& plan, const AttentionProblem& problem) {
  CheckProblem(problem);
  CheckPlan(plan, problem);
  for (int64_t t = 0; t < problem.q.tokens; ++t) {
    for (int h = 0; h < problem.out.heads; ++h)
      std::ranges::copy(QuantizedReferenceRow(plan, problem, t, h).out, problem.out.Row(t, h));
  }
}

}  // namespace tare
