// SPDX-License-Identifier: Apache-2.0
// The error of a mean of n units x_1 .. x_n: the one formula behind every error, interval and p-value of figures that
// are means over windows, samples or documents. Units are independent draws, or windows in the order of a text, whose
// neighbours are alike (of a divergence, neighbours in a novel correlate by 0.2 to 0.6).
//
// With m the mean, the squared error is V / n. V is the mean square of the B slowest cosine transforms, because
// neighbours share slow waves (equally weighted: Lazarus, Lewis, Stock and Watson, J. Bus. Econ. Stat. 36, 2018):
//
//   L_j = sqrt(2 / n) sum_t x_t cos(pi j (t - 1/2) / n)        V = (1 + 12 (B / n)^2) sum_{j <= B} L_j^2 / B
//   B   = min(n / 10, 0.4 n^(2/3)), rounded down: their rule, held to a tenth where n is small
//
// For normal units T = m / sqrt(V / n) has Student's t with B degrees. Where neighbours correlate by rho, the waves
// miss rho / (1 - rho)^2 (pi B / n)^2 / 3 of the variance: 12 (B / n)^2 at rho = 0.6, which the factor gives back.
// Independent units need neither: all waves, B = n - 1, and no factor, which is the sample variance and Student's test.
//
// Skewed units make m and V err together. To first order in k = skewness / sqrt(n), T is t - k (t^2 m1 / 3 + m2 / 6), t
// Student's, m1 and m2 means of sqrt(V) and 1 / sqrt(V) where t is at the interval's end c (V is chi-squared of B + 1
// degrees over B + c^2; both are 1 for many degrees). Hall's monotone cubic undoes this (J. R. Stat. Soc. B 54, 1992):
//
//   h(T) = T + a T^2 + a^2 T^3 / 3 + b,  a = k m1 / 3,  b = k m2 / 6
//
// p is Student's of h(T), the 95 % interval all values with |h| <= c: it omits 0 exactly if p < 0.05. Few units show
// too little skewness, so the sample's counts a quarter more. Coverage: docs/reference/uncertainty.md.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/significance/inference.h"

namespace tare {

enum class Units { kOfText, kIndependent };

// With fewer units, no figure is reliable: B would be 1, whose t is 12.7, and skewness cannot be seen.
inline constexpr size_t kFewestUnits = 20;

struct MeanError {
  double error = 0;          // sqrt(V / n)
  int degrees = 1;           // B
  double bend = 0, lag = 0;  // a and b

  // The two-sided p of a mean of 0. Needs an error above 0, as Around does.
  double P(double mean) const;
  Interval Around(double mean, double share = 0.95) const;
  // The smallest mean that a two-sided test at 5 % detects in 80 %: (z + y) error, z and y Student's (inference.h).
  double SmallestDetectable() const;
};

// "10 windows are too few for an error: expected 20; try more tokens or a shorter --window", below kFewestUnits.
std::string FewUnitsText(size_t units, Units kind);

// Empty with fewer than kFewestUnits.
std::optional<MeanError> ErrorOfMean(std::span<const double> units, Units kind);

struct WindowLosses {
  std::vector<double> sums;    // [windows]
  std::vector<double> counts;  // [windows] of tokens
};

enum class OfMean { kItself, kExponential };

// Runs over the same units, windows or items. For window i of m_i tokens, run r has the sum of losses s_ri; for an item
// m_i is 1, s_ri its score. With M = sum m_i, a run's mean is A_r = sum_i s_ri / M, and the contrast of the runs is
//
//   T = sum_r sign_r f(A_r)      f: the mean itself, or exp: perplexity
//
// With signs (-1, +1) it is how a figure changed from one run to the other; with (+1, -1, -1, +1), how much more one
// model's changed than another's. To first order T varies as the sum of
//
//   g_i = sum_r sign_r f'(A_r) (s_ri - A_r m_i)
//
// so its error is that of a mean of n g_i / M over n units. Shared difficulty cancels; a window's tokens may correlate.
struct PairedRuns {
  std::vector<double> counts;             // m [units]
  std::vector<std::vector<double>> sums;  // s [runs][units]
  std::vector<double> signs;              // [runs]
  OfMean of_mean = OfMean::kItself;
  Units kind = Units::kOfText;

  size_t Count() const { return counts.size(); }
};

// The mean of what `of` gives for tokens, by the windows that scored them (their member `window`).
template <typename Tokens, typename Of>
PairedRuns ByWindow(const Tokens& tokens, Of of) {
  std::map<size_t, std::pair<double, double>> sums;  // of a window that has some: values, and how many
  for (const auto& token : tokens) sums[token.window].first += of(token), sums[token.window].second += 1;
  PairedRuns runs{.counts = {}, .sums = {{}}, .signs = {1}};
  for (const auto& [window, sum] : sums) runs.sums[0].push_back(sum.first), runs.counts.push_back(sum.second);
  return runs;
}

// Tokens by their `context`, the number they were predicted from, in powers of two: the first of 1, 2 to 3, 4 to 7, ...
template <typename Token>
std::map<int64_t, std::vector<Token>> ByContext(const std::vector<Token>& tokens) {
  std::map<int64_t, std::vector<Token>> ranges;
  for (const Token& token : tokens)
    ranges[static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(token.context)))].push_back(token);
  return ranges;
}
inline int64_t LastOfRange(int64_t first) { return std::max<int64_t>(0, 2 * first - 1); }

double Contrast(const PairedRuns& runs);

// The error of T; empty with fewer than kFewestUnits units. It is 0 if no unit differs by more than rounding.
std::optional<MeanError> PairedError(const PairedRuns& runs);

// The mean of a few independent samples, such as models trained from other seeds or calibrated on other texts:
//
//   mean m = sum x_i / n,   deviation s = sqrt(sum (x_i - m)^2 / (n - 1)),   95 % of the mean: m -/+ t s / sqrt(n)
//
// with t of Student's distribution, n - 1 degrees of freedom. s already contains each sample's own error.
struct SampleMean {
  double mean = 0, deviation = 0;
  Interval interval;
};

// The mean of two samples or more.
SampleMean MeanOfSamples(std::span<const double> samples);

}  // namespace tare
