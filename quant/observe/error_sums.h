// SPDX-License-Identifier: Apache-2.0
// The error sums between a row of values and its approximation, in double and in one fixed order (as in moments.h), and
// the figures that papers report.
#pragma once

#include <span>

namespace tare {

struct ErrorSums {
  double error2 = 0;   // (x - y)^2
  double error1 = 0;   // |x - y|
  double product = 0;  // x y
  double square = 0;   // y^2
};

// Equal lengths.
ErrorSums SumErrors(std::span<const float> x, std::span<const float> y);

// 10 log10(sum x^2 / sum (x - y)^2), in dB; infinite without error, NaN where both are 0.
double SignalToNoise(double x2, double error2);
// sum x y / sqrt(sum x^2 sum y^2).
double Cosine(double x2, double square, double product);

}  // namespace tare
