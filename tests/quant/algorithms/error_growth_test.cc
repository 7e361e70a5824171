// SPDX-License-Identifier: Apache-2.0
// Against differences of the header's formula in double, with a magnitude that is written out for each kind of scale.
#include "quant/algorithms/error_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/random_quantized.h"

namespace tare::error_growth_test {
namespace {

constexpr size_t kN = 16;

double MagnitudeOf(Format format, const std::vector<double>& w) {
  double absmax = 0, sum = 0, squares = 0, low = w[0], high = w[0];
  for (const double x : w) {
    absmax = std::max(absmax, std::abs(x));
    sum += std::abs(x);
    squares += x * x;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  if (format == Format::kTernary) return sum / kN;
  if (format == Format::kE8P) return std::sqrt(squares / kN);
  if (Info(format).range == CodeRange::kZero) return std::max(high, 0.0) - std::min(low, 0.0);
  return Info(format).range == CodeRange::kMin ? high - low : absmax;
}

// f32 weights of magnitude 1 are exact in double; the sums' and the result's rounding is all that differs, and the
// curvature of the root of squares over the difference.
TEST(ErrorGrowth, IsTheDerivativeOfItsFormula) {
  const std::vector<float> e = RandomNormal(kN, 2), p = RandomNormal(kN, 3);
  for (const Format& format :
       std::vector<Format>{Format::kInt4, Format::kInt2, Format::kMxFp4, Format::kTernary, Format::kE8P,
                           WithRange(Format::kInt4, CodeRange::kFull), WithRange(Format::kInt4, CodeRange::kZero),
                           WithRange(Format::kInt2, CodeRange::kMin)}) {
    for (const float offset : {0.0f, 5.0f, -5.0f}) {  // of one sign, the range of a zero point has one end at 0
      std::vector<float> w = RandomNormal(kN, 1), gradient(kN, 1.0f);
      for (float& x : w) x += offset;
      AddErrorGrowth(format, w, e, p, gradient);
      const std::vector<double> at(w.begin(), w.end());
      for (size_t k = 0; k < kN; ++k) {
        constexpr double kStep = 1e-5;
        std::vector<double> more = at, less = at;
        more[k] += kStep;
        less[k] -= kStep;
        const double growth = (MagnitudeOf(format, more) - MagnitudeOf(format, less)) / (2 * kStep);
        double along = 0;
        for (size_t i = 0; i < kN; ++i) along += double{p[i]} * double{e[i]};
        EXPECT_NEAR(gradient[k], 1 + along * growth / MagnitudeOf(format, at), 1e-6 * std::abs(along) + 1e-6)
            << Name(format) << " " << k;
      }
    }
  }
}

TEST(ErrorGrowth, AGroupOfZerosAddsNothing) {
  const std::vector<float> w(kN, 0.0f), e(kN, 1.0f), p(kN, 1.0f);
  for (const Format& format :
       std::vector<Format>{Format::kInt4, Format::kTernary, Format::kE8P, WithRange(Format::kInt4, CodeRange::kZero),
                           WithRange(Format::kInt4, CodeRange::kMin)}) {
    std::vector<float> gradient(kN, 0.0f);
    AddErrorGrowth(format, w, e, p, gradient);
    EXPECT_EQ(gradient, std::vector<float>(kN, 0.0f)) << Name(format);
  }
}

}  // namespace
}  // namespace tare::error_growth_test
