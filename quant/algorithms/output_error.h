// SPDX-License-Identifier: Apache-2.0
// What an error of weights does to a layer's outputs on calibration inputs X: ||D X||^2 = sum over rows d of d H d^T,
// with the second moments H = X X^T. Exact, without X.
#pragma once

#include <cstdint>
#include <span>

namespace tare {

// errors: D [rows, in]; moments: H [in, in], both triangles. Uses all threads; the result does not depend on them.
// Products are in f32, their sums in double: off by at most 2^-24 in times sum |d_i H_ij d_j|.
double OutputError(std::span<const float> errors, int64_t in, std::span<const float> moments);

}  // namespace tare
