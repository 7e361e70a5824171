// SPDX-License-Identifier: Apache-2.0
// Identifies captured arrays: equal names, shapes and f32 values give equal bytes, whatever file and type store them.
// Values enter SHA-256 through four sums of 64 bits per 4096 of them, h = (rotate(h, 29) + two values) odd constant,
// which collide by chance once in 2^64 but can be forged: the digest distinguishes runs and does not protect them. It
// takes a tenth of the time of SHA-256 over the bytes themselves.
#pragma once

#include "experiments/arrays/array_file.h"
#include "quant/file/sha256.h"

namespace tare {

void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values);

}  // namespace tare
