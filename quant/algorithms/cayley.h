// SPDX-License-Identifier: Apache-2.0
// Descent over orthogonal matrices Q [n, n] (the Stiefel manifold) by the Cayley transform (Li, Li and Todorovic, arXiv
// 2002.01113; what SpinQuant, arXiv 2405.16406, learns its rotations with):
//
//   A = M - M^T                  dL = <M, Q^T dQ>: only the skew part of M is a direction in which Q stays orthogonal
//   Q <- Q (I + K)^-1 (I - K)    K = angle / 2  sqrt(n) A / ||A||: turns by `angle` radians, in the root mean square
//
// The factor is orthogonal for any skew K: (I + K) (I - K) = (I - K) (I + K). The papers solve for it by a few
// iterations; here it is exact, so that Q stays orthogonal to double's rounding in any number of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare {

inline constexpr int kCayleySteps = 100;

// One step from q [n, n], against the gradient m [n, n], both row-major. Where A is 0, q stays. Sums are in double, on
// one thread: 8 n^3 / 3 products for the factor and n^3 for q.
void CayleyStep(int64_t n, std::span<const double> m, double angle, std::vector<double>& q);

}  // namespace tare
