// SPDX-License-Identifier: Apache-2.0
// The stages of this folder, compiled once for each instruction set and chosen at run time. One source has them all,
// so that each set reads Highway's headers once: they are 3 of the 4 s that one stage alone takes to compile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/integer/stages.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/attention/integer/code_stage-inl.h"
#include "kernels/attention/integer/logit_stage-inl.h"
#include "kernels/attention/integer/packing-inl.h"
