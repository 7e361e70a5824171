// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/set_apart.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tare {
namespace {

float MedianOf(std::span<const float> values) {
  std::vector<float> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace

int64_t OutliersOf(int64_t n, double percent) {
  constexpr double kRoundOff = 1e-9;  // 0.07 percent of 10,000 are 7
  return static_cast<int64_t>(std::ceil(percent * static_cast<double>(n) / 100 - kRoundOff));
}

SetApart::SetApart(std::span<const float> values, Format format, double percent) : places_(values.size()) {
  const double middle = HasOffset(format) ? MedianOf(values) : 0.0f;
  const auto far = [&](size_t i) { return std::fabs(double{values[i]} - middle); };
  const auto count = static_cast<size_t>(OutliersOf(std::ssize(values), percent));
  std::iota(places_.begin(), places_.end(), size_t{0});
  std::ranges::nth_element(places_, places_.begin() + static_cast<ptrdiff_t>(count - 1), [&](size_t a, size_t b) {
    const double of_a = far(a), of_b = far(b);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  places_.resize(count);
  std::ranges::sort(places_);
  auto next = places_.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_outlier = next != places_.end() && *next == i;
    (is_outlier ? outliers_ : others_).push_back(values[i]);
    if (is_outlier) ++next;
  }
}

void SetApart::Restore(std::span<float> values) const {
  for (size_t i = 0; i < places_.size(); ++i) values[places_[i]] = outliers_[i];
}

}  // namespace tare
