// SPDX-License-Identifier: Apache-2.0
// The stages of this folder, as kernels/attention/integer/stages.cc has those of its own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/stages.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/linear/one_token-inl.h"
#include "kernels/linear/packed_matrix-inl.h"
#include "kernels/linear/product_stage-inl.h"
#include "kernels/linear/row_product-inl.h"
