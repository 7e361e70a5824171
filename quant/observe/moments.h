// SPDX-License-Identifier: Apache-2.0
// Power sums of one row, in double and in one order whatever the machine: lane i takes the values i, i+4, i+8, ...,
// and the lanes are added in a fixed tree. Squares are exact; relative error of a sum of n terms of one sign at most
// (n/4 + 5) 2^-53. Also what follows from power sums: mean, variance, kurtosis in the variants that papers report.
#pragma once

#include <cstdint>
#include <span>

namespace tare {

struct PowerSums {
  double x = 0, x2 = 0, x3 = 0, x4 = 0;
  double magnitude = 0;  // of |x|
};

// NaN or infinite where the row has a value that is. (No finite row is: 2^512 a fourth power, 2^63 of them.)
PowerSums SumPowers(std::span<const float> row);

// Moments of n values from their power sums, in long double: the mean's square cancels against the second moment.
struct Moments {
  long double count = 0, x = 0, x2 = 0, x3 = 0, x4 = 0;

  // NaN where there are too few values, or no spread.
  double Mean() const;
  double Variance() const;  // m2, of n
  double Kurtosis() const;  // m4 / m2^2: 3 for a normal law
  // Bondarenko et al., arXiv 2306.12929, code: m4 / (s^4 + 1e-6), s^2 of n - 1, centred, of one sequence's values.
  double QuantizableKurtosis() const;
  // Outlier-Safe Pre-Training, code: max(0, E[x^4] / s^4 - 3), not centred, s^2 centred and of n - 1, of one row.
  double RowKurtosis() const;

 private:
  long double SecondCentral() const;
  long double FourthCentral() const;
};

}  // namespace tare
