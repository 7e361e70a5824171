// SPDX-License-Identifier: Apache-2.0
#include "quant/format/round.h"

#include <vector>

#include "quant/base/message.h"

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
  std::vector<float> magnitudes;
  for (const Ends& group : groups) magnitudes.push_back(group.high);
  return EndsOf(magnitudes, format);
}

float QuantizeGroup(std::span<const float> values, const Format& format, std::span<int16_t> codes) {
  if (!IsInteger(format)) Fail("quantize: got {}, expected a format of integer codes", Name(format));
  if (codes.size() != values.size()) Fail("quantize: got room for {} codes, expected {}", codes.size(), values.size());
  if (const auto bad = FirstNotFinite(values))
    Fail("quantize: got {} at {}, expected finite values", values[*bad], *bad);
  if (HasOffset(format)) Fail("quantize: got {}, expected codes whose scale alone gives their values", Name(format));
  const bool is_unsigned = Info(format).min_code == 0;
  if (is_unsigned && std::ranges::any_of(values, [](float x) { return x < 0; }))
    Fail("quantize {}: got a value below 0, expected none", Name(format));
  const Scale scale = ScaleFor(AbsMax(values), format);
  std::ranges::transform(values, codes.begin(),
                         [&](float x) { return static_cast<int16_t>(CodeOf(x, scale.inv, format)); });
  return scale.scale;
}

}  // namespace tare
