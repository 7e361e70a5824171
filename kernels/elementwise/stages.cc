// SPDX-License-Identifier: Apache-2.0
// The stages of this folder, as kernels/attention/integer/stages.cc has those of its own.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/stages.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/elementwise/fake_quantize-inl.h"
#include "kernels/elementwise/rotate_rows-inl.h"
#include "kernels/elementwise/rows-inl.h"
