// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/error_growth.h"

#include <algorithm>
#include <cmath>

#include "quant/format/round.h"

namespace tare {
namespace {

bool Smaller(float a, float b) { return std::fabs(a) < std::fabs(b); }

// The ends of the range that codes cover; with a zero point it reaches to 0, which is no weight.
void AddOfRange(bool to_zero, std::span<const float> w, double along, std::span<float> gradient) {
  const auto [smallest, largest] = std::ranges::minmax_element(w);
  const double low = to_zero ? std::min(*smallest, 0.0f) : *smallest,
               high = to_zero ? std::max(*largest, 0.0f) : *largest;
  if (high - low < double{kSmallestAbsmax}) return;
  const auto by_unit = static_cast<float>(along / (high - low));
  if (low == double{*smallest}) gradient[static_cast<size_t>(smallest - w.begin())] -= by_unit;
  if (high == double{*largest}) gradient[static_cast<size_t>(largest - w.begin())] += by_unit;
}

}  // namespace

void AddErrorGrowth(Format format, std::span<const float> w, std::span<const float> e, std::span<const float> p,
                    std::span<float> gradient) {
  const FormatInfo& info = Info(format);
  double along = 0, sum = 0;
  for (size_t i = 0; i < w.size(); ++i) along += double{p[i]} * double{e[i]};
  if (HasOffset(format)) return AddOfRange(info.range == CodeRange::kZero, w, along, gradient);
  if (info.statistic == Statistic::kLargest) {
    const auto largest = std::ranges::max_element(w, Smaller);
    if (std::fabs(*largest) < kSmallestAbsmax) return;
    gradient[static_cast<size_t>(largest - w.begin())] += static_cast<float>(along / double{*largest});
    return;
  }
  const bool squares = info.statistic == Statistic::kRootMeanSquare;  // w / sum w^2, or sign(w) / sum |w|
  for (const float x : w) sum += squares ? double{x} * double{x} : std::fabs(double{x});
  if (sum == 0) return;
  for (size_t i = 0; i < w.size(); ++i)
    gradient[i] += static_cast<float>(along * (squares ? double{w[i]} : std::copysign(1.0, double{w[i]})) / sum);
}

}  // namespace tare
