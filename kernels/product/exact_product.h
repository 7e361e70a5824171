// SPDX-License-Identifier: Apache-2.0
// The tile product without oneDNN: Highway, exact in integers on every target. Layouts as in tile_product.h. Used where
// the ukernel is absent or wrong, and as its cross-check. C's columns beyond n are left alone; B's columns up to the
// next multiple of a vector are not read.
#pragma once

#include "kernels/product/tile_product.h"

namespace tare {

void ExactProduct(const ProductShape& shape, const void* a, const void* b, void* c);

}  // namespace tare
