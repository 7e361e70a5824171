// SPDX-License-Identifier: Apache-2.0
// An attention plan in plain loops: the same codes, one value at a time. It shares the definitions (round.h,
// exponentials.h) with the kernels but none of their code; every integer must agree, so outputs differ only by
// the order of f32 sums.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/integer/executed_attention.h"

namespace tare {

struct QuantizedRow {
  std::vector<float> out;  // [slices * width of a slice]
  // Early: of the difference, less the zero point, [keys]; late: of both maps, [maps][keys]. 0 where masked.
  std::vector<int> codes;
};

// One row of one output head. Slow.
QuantizedRow QuantizedReferenceRow(const AttentionPlan& plan, const AttentionProblem& problem, int64_t t, int head);

}  // namespace tare
