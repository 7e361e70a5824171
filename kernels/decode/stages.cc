// SPDX-License-Identifier: Apache-2.0
// The stages of this folder, as kernels/attention/integer/stages.cc has those of its own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode/stages.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/decode/page_softmax-inl.h"
#include "kernels/decode/panel_product-inl.h"
