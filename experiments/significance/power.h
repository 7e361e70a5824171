// SPDX-License-Identifier: Apache-2.0
// Statistical power: the smallest difference that a two-sided test at 5 % detects in 80 of 100 repetitions, and
// how many units another needs. By the normal approximation, z = Phi^-1(0.975) = 1.960 and y = Phi^-1(0.8) =
// 0.842.
//
// Of paired items d is the mean of the differences of their scores, q the mean of the squares of these, for right and
// wrong the share of items that changed (Connor, Biometrics 43, 1987):
//
//   d sqrt(n) = z sqrt(q) + y sqrt(q - d^2)
//
// q is what was seen, with one item more gained and one more lost (accuracy.h); where d would be above it, more items
// must have changed: then q = d, all of them to one side. Of means of windows q does not depend on d: d = (z + y)
// error.
#pragma once

#include <cstdint>

namespace tare {

double SmallestDetectable(double mean_square, int64_t items);
double SmallestDetectable(double error);

// Of items that change as much as mean_square says, so many show d > 0.
int64_t ItemsToShow(double d, double mean_square);

}  // namespace tare
