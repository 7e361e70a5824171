// SPDX-License-Identifier: Apache-2.0
// Items needed, Wilson's interval and digits of figures; then distributions, intervals, tests and texts.
#include "experiments/significance/inference.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include "experiments/significance/draws.h"
#include "quant/base/message.h"

namespace tare {
namespace {

namespace math = boost::math;

double ItemsFor(double d, double mean_square) {
  const double q = std::max(mean_square, d);
  const double root = (NormalQuantile(0.975) * std::sqrt(q) + NormalQuantile(0.8) * std::sqrt(q - d * d)) / d;
  return root * root;
}

constexpr int kMoreDigits = 4;  // than a format has, where it would show an error as 0; beyond, it is one of rounding
constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % quantile

Interval Wilson(double p, double count, double z) {
  const double z2 = z * z / count;
  const double middle = p + z2 / 2, half = z * std::sqrt(p * (1 - p) / count + z2 / count / 4);
  // At the ends exactly: rounding would leave 1e-17.
  return {p == 0 ? 0.0 : (middle - half) / (1 + z2), p == 1 ? 1.0 : (middle + half) / (1 + z2)};
}

// "+.3f": the flags before the point, the digits after it, and the type.
struct NumberFormat {
  std::string before;
  int digits = 0;
  char type = 'f';

  explicit NumberFormat(std::string_view text) : before(text.substr(0, text.find('.'))), type(text.back()) {
    const std::string_view number = text.substr(before.size() + 1);
    TARE_CHECK(std::from_chars(number.data(), number.data() + number.size() - 1, digits).ec == std::errc());
  }
  std::string Text(int most, int more = 0) const {
    return Formatted("{}.{}{}", before, std::clamp(most, 0, digits + more), type);
  }
};

int Exponent(double value) { return value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value)))); }

// The format for a value known to this error.
std::string FormatOf(double value, double error, std::string_view format) {
  if (!(error > 0) || !std::isfinite(error) || !std::isfinite(value)) return std::string(format);
  const NumberFormat all(format);
  const int place = Exponent(error) - 1;  // of the error's second digit
  if (all.type == 'e') return all.Text(Exponent(value) - place);
  const bool hides = error < 0.5 * std::pow(10, -all.digits) && -place <= all.digits + kMoreDigits;
  return all.Text(-place, hides ? kMoreDigits : 0);
}

double ErrorOf(const Interval& interval) { return (interval.high - interval.low) / 2 / 1.96; }

}  // namespace

double NormalBelow(double z) { return math::cdf(math::normal(), z); }

double NormalQuantile(double share) {
  TARE_CHECK(share > 0 && share < 1);
  return math::quantile(math::normal(), share);
}

double StudentTwoSided(double t, int degrees) {
  TARE_CHECK(degrees >= 1);
  return 2 * math::cdf(math::complement(math::students_t(degrees), std::abs(t)));
}

double StudentQuantile(double share, int degrees) {
  TARE_CHECK(degrees >= 1 && share > 0 && share < 1);
  return math::quantile(math::students_t(degrees), share);
}

double ChiSquaredAbove(double x, int degrees) {
  TARE_CHECK(degrees >= 1 && x >= 0);
  return math::cdf(math::complement(math::chi_squared(degrees), x));
}

double FairTossesAtMost(int64_t k, int64_t n) {
  TARE_CHECK(0 <= k && k <= n);
  return math::cdf(math::binomial(static_cast<double>(n), 0.5), static_cast<double>(k));
}

double ShareRight(std::string_view outcomes) {
  return static_cast<double>(std::ranges::count(outcomes, '1')) / static_cast<double>(outcomes.size());
}

std::vector<double> ScoresOf(std::string_view outcomes) {
  return outcomes | std::views::transform([](char c) { return c == '1' ? 1.0 : 0.0; }) | std::ranges::to<std::vector>();
}

double ShareError(double share, double n) { return n < 2 ? 0.0 : std::sqrt(share * (1 - share) / (n - 1)); }

Interval WilsonInterval(int64_t right, int64_t n) {
  TARE_CHECK(0 <= right && right <= n && n > 0);
  return Wilson(static_cast<double>(right) / static_cast<double>(n), static_cast<double>(n), kZ);
}

Interval ClusteredInterval(const std::vector<double>& right, const std::vector<double>& items) {
  TARE_CHECK(right.size() == items.size() && !items.empty());
  const auto clusters = static_cast<double>(items.size());
  const double n = std::accumulate(items.begin(), items.end(), 0.0);
  const double p = std::accumulate(right.begin(), right.end(), 0.0) / n;
  if (n == clusters) return Wilson(p, n, kZ);
  if (p == 0 || p == 1 || items.size() == 1) return Wilson(p, clusters, kZ);
  double squares = 0;
  for (size_t c = 0; c < items.size(); ++c) squares += std::pow(right[c] - p * items[c], 2);
  const double variance = squares * clusters / (clusters - 1) / (n * n);
  const double design = std::max(1.0, variance * n / (p * (1 - p)));
  return Wilson(p, n / design, StudentQuantile(0.975, static_cast<int>(items.size()) - 1));
}

void OutcomeChanges::Add(int difference) {
  ++n;
  gained += difference > 0;
  lost += difference < 0;
  sum += difference;
  squares += difference * difference;
}

double OutcomeChanges::StandardError() const {
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(n), total = static_cast<double>(sum);
  return std::sqrt((static_cast<double>(squares) - total * total / count) / (count - 1) / count);
}

double OutcomeChanges::MeanSquare() const { return static_cast<double>(squares + 2) / static_cast<double>(n + 2); }

Interval OutcomeChanges::BonettPrice(double share) const {
  const auto count = static_cast<double>(n + 2);
  const double mean = static_cast<double>(sum) / count;
  const double half = NormalQuantile((1 + share) / 2) * std::sqrt((MeanSquare() - mean * mean) / count);
  const double most = squares > gained + lost ? 2 : 1;  // that a difference can be
  return {std::max(-most, mean - half), std::min(most, mean + half)};
}

double McNemarMidP(int64_t better, int64_t worse) {
  const int64_t k = std::min(better, worse), n = better + worse;
  return std::min(1.0, FairTossesAtMost(k, n) + (k > 0 ? FairTossesAtMost(k - 1, n) : 0.0));
}

std::vector<double> Holm(const std::vector<double>& p) {
  std::vector<size_t> order = AllBelow(p.size());
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p[order[k]] * static_cast<double>(p.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

// Larger d need fewer items, so this bisects between 0 and the largest possible difference.
double SmallestDetectable(double mean_square, int64_t items) {
  TARE_CHECK(mean_square > 0 && items > 0);
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double d = (low + high) / 2;
    (ItemsFor(d, mean_square) > static_cast<double>(items) ? low : high) = d;
  }
  return high;
}

int64_t ItemsToShow(double d, double mean_square) {
  TARE_CHECK(d > 0 && d <= 1 && mean_square > 0);
  return static_cast<int64_t>(std::ceil(ItemsFor(d, mean_square)));
}

std::string NumberText(double value, std::string_view format) {
  return FormatArguments(Formatted("{{:{}}}", format), std::make_format_args(value));
}

std::string WithError(double value, double error, std::string_view format) {
  const std::string_view unsigned_format = format.substr(format.starts_with('+') ? 1 : 0);
  return Formatted("{} +/- {}", NumberText(value, FormatOf(value, error, format)),
                   NumberText(error, FormatOf(error, error, unsigned_format)));
}

std::string WithInterval(double value, const Interval& interval, std::string_view format) {
  const double error = ErrorOf(interval);
  const auto number = [&](double x) { return NumberText(x, FormatOf(x, error, format)); };
  return Formatted("{} [{}, {}]", number(value), number(interval.low), number(interval.high));
}

std::string BesideInterval(double value, const Interval& interval, std::string_view format) {
  return NumberText(value, FormatOf(value, ErrorOf(interval), format));
}

}  // namespace tare
