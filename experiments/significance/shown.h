// SPDX-License-Identifier: Apache-2.0
// Formats figures with no more digits than their error allows: two for the error, and the value to the same place.
//
//   0.7104 and 0.0456 by ".4f": "0.710 +/- 0.046"      1.5713e-03 and 2.86e-05 by ".2e": "1.57e-03 +/- 2.9e-05"
//
// A format is std::format's, ".3f", "+.3f" or ".2e". It gives the most digits, and is used in full if the error is 0.
#pragma once

#include <string>
#include <string_view>

#include "experiments/significance/accuracy.h"

namespace tare {

std::string NumberText(double value, std::string_view format);
// "0.710 +/- 0.046"; a sign in the format applies to the value only.
std::string WithError(double value, double error, std::string_view format);
// "0.71 [0.61, 0.79]", taking half of a 95 % interval / 1.96 as the error.
std::string WithInterval(double value, const Interval& interval, std::string_view format);
// A value beside a change that has this interval, to the same place: "29.33" for 29.3321 beside "1.69 [1.49, 1.90]".
std::string BesideInterval(double value, const Interval& interval, std::string_view format);

}  // namespace tare
