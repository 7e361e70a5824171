// SPDX-License-Identifier: Apache-2.0
// By what captured arrays know each other: equal names, shapes and values in f32 give equal bytes, whatever file and
// type they lie in. Values enter SHA-256 through four sums of 64 bits per 4096 of them, h = (rotate(h, 29) + two
// values) odd constant, which chance makes equal once in 2^64 and anybody who wants to can: it tells runs apart, and is
// no seal. It takes a tenth of the time of SHA-256 over the bytes themselves.
#pragma once

#include "experiments/arrays/array_file.h"
#include "quant/file/sha256.h"

namespace tare {

void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values);

}  // namespace tare
