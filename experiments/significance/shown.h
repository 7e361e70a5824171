// SPDX-License-Identifier: Apache-2.0
// Formats figures with no more digits than their error allows: two of the error, and the value to the same place.
//
//   0.7104 and 0.0456 by ".4f": "0.710 +/- 0.046"      1.5713e-03 and 2.86e-05 by ".2e": "1.57e-03 +/- 2.9e-05"
//
// A format is std::format's, ".3f", "+.3f" or ".2e": what it shows is the most, and all of it where the error is 0.
#pragma once

#include <string>
#include <string_view>

#include "experiments/significance/accuracy.h"

namespace tare {

std::string NumberText(double value, std::string_view format);
// "0.710 +/- 0.046"; a sign in the format is the value's alone.
std::string WithError(double value, double error, std::string_view format);
// "0.71 [0.61, 0.79]", the error taken as a 95 % interval's half / 1.96.
std::string WithInterval(double value, const Interval& interval, std::string_view format);

}  // namespace tare
