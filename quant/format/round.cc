// SPDX-License-Identifier: Apache-2.0
#include "quant/format/round.h"

#include <ranges>
#include <vector>

namespace tare {
namespace {

// The mean less the root of the mean square about it, and with it.
Ends AboutMean(std::span<const float> values) {
  double sum = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (const float x : values) sum += double{x};
  const double mean = sum / n;
  for (const float x : values) squares += (double{x} - mean) * (double{x} - mean);
  const double deviation = std::sqrt(squares / n);
  return {static_cast<float>(mean - deviation), static_cast<float>(mean + deviation)};
}

}  // namespace

std::optional<size_t> FirstNotFinite(std::span<const float> values) {
  const auto found = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (found == values.end()) return std::nullopt;
  return static_cast<size_t>(found - values.begin());
}

float AbsMax(std::span<const float> values) {
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

float MagnitudeOf(std::span<const float> values, Statistic statistic) {
  if (statistic == Statistic::kLargest || values.empty()) return AbsMax(values);
  const auto mean_of = [values](auto of) {
    double sum = 0;
    for (const float x : values) sum += of(double{x});
    return sum / static_cast<double>(values.size());
  };
  if (statistic == Statistic::kMean) return static_cast<float>(mean_of([](double x) { return std::fabs(x); }));
  return static_cast<float>(std::sqrt(mean_of([](double x) { return x * x; })));
}

Ends EndsOf(std::span<const float> values, const Format& format) {
  if (format.range == CodeRange::kMean) return AboutMean(values);
  if (HasOffset(format)) {
    const auto [smallest, largest] = std::ranges::minmax(values);
    return {smallest, largest};
  }
  const float magnitude = MagnitudeOf(values, Info(format).statistic);
  return {-magnitude, magnitude};
}

Ends EndsOfAll(std::span<const Ends> groups, const Format& format) {
  if (HasOffset(format))
    return {std::ranges::min(groups, {}, &Ends::low).low, std::ranges::max(groups, {}, &Ends::high).high};
  return EndsOf(groups | std::views::transform(&Ends::high) | std::ranges::to<std::vector>(), format);
}

}  // namespace tare
