// SPDX-License-Identifier: Apache-2.0
// The tile product without oneDNN: Highway, exact in integers on every target, with the layouts of tile_product.h. Used
// if the ukernel is missing or wrong, and to cross-check it. Leaves C's columns beyond n alone; does not read B's
// columns up to the next multiple of a vector.
#pragma once

#include "kernels/product/tile_product.h"

namespace tare {

void ExactProduct(const ProductShape& shape, const void* a, const void* b, void* c);

}  // namespace tare
