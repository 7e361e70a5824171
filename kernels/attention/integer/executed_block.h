// SPDX-License-Identifier: Apache-2.0
// The work of the integer kernels on one block of query rows of one output head, from quantizing Q to the finished
// rows. Late or early order, see code_stage.h; all matrix products are TileProducts, everything between them is a
// stage.
#pragma once

#include "kernels/attention/integer/executed_layout.h"

namespace tare {

struct ExecutedCall {
  const ExecutedLayout& layout;
  const PackedHeads& packed;
  const ExecutedProducts& products;
};

// Block `index` of layout.RowBlocks(). Throws Error naming the place of a NaN or Inf in Q.
void RunBlock(const ExecutedCall& call, const ExecutedScratch& scratch, int64_t index);

}  // namespace tare
