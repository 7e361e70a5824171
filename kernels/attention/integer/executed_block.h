// SPDX-License-Identifier: Apache-2.0
// One unit of the integer kernels: a block of query rows of one output head, from quantizing Q to the finished rows.
// Late or early order, see code_stage.h; all matrix products are TileProducts, everything between them is a stage.
#pragma once

#include "kernels/attention/integer/executed_layout.h"
#include "kernels/attention/partials.h"

namespace tare {

struct ExecutedCall {
  const AttentionPlan& plan;
  const AttentionProblem& problem;
  const Sizes& sizes;
  const Packed& packed;
  const Products& products;
  const AttentionPartials* partials;  // null: whole rows go to problem.out
};

// Unit `unit` of heads * sizes.row_blocks. Throws Error naming the place of a NaN or Inf in Q.
void RunUnit(const ExecutedCall& call, const Scratch& scratch, int64_t unit);

}  // namespace tare
