// SPDX-License-Identifier: Apache-2.0
// The tile product of bytes in AMX instructions, for whole tiles alone. oneDNN's ukernel has another configuration of
// the tiles for every depth, which a kernel that goes from one product to the next pays for each time, and allocates in
// each call; here one configuration serves all shapes. Layouts as in tile_product.h.
#pragma once

#include "kernels/product/tile_product.h"

namespace tare {

// Bytes; m a multiple of 16, n of 32, k of 64.
bool AmxTakes(const ProductShape& shape);

// The calling thread's tiles must be loaded, and the operating system must have granted them.
void AmxProduct(const ProductShape& shape, const void* a, const void* b, void* c);

void LoadAmxTiles();
void ReleaseAmxTiles();

}  // namespace tare
