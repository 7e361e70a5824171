// SPDX-License-Identifier: Apache-2.0
#include "quant/format/sign_sketch.h"

#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <random>

#include "quant/base/message.h"

namespace tare {
namespace {

// Box and Muller's: the standard's distributions differ between libraries.
double NormalDraw(std::mt19937_64& random) {
  const auto uniform = [&random] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };  // above 0, below 1
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

}  // namespace

SignSketch::SignSketch(int64_t n, uint64_t seed) : n_(n), rows_(static_cast<size_t>(n * n)) {
  TARE_CHECK(n >= 1);
  std::mt19937_64 random(seed);
  for (float& value : rows_) value = static_cast<float>(NormalDraw(random));
}

void SignSketch::AddResidual(std::span<const float> x, std::span<float> rounded) const {
  const auto n = static_cast<size_t>(n_);
  TARE_CHECK(x.size() == n && rounded.size() == n);
  thread_local std::vector<double> left, sum;
  left.resize(n);
  sum.assign(n, 0.0);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) {
    left[i] = double{x[i]} - double{rounded[i]};
    squares += left[i] * left[i];
  }
  if (squares == 0) return;
  for (size_t row = 0; row < n; ++row) {
    const float* const s = rows_.data() + row * n;
    double projected = 0;
    for (size_t i = 0; i < n; ++i) projected += double{s[i]} * left[i];
    const double sign = projected < 0 ? -1 : 1;
    for (size_t i = 0; i < n; ++i) sum[i] += sign * double{s[i]};
  }
  const double factor = std::sqrt(std::numbers::pi / 2 * squares) / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(double{rounded[i]} + factor * sum[i]);
}

const SignSketch& PlanSketch(int64_t n) {
  constexpr uint64_t kSeed = 2;  // not that of the rotation's signs
  static std::mutex mutex;
  static std::map<int64_t, const SignSketch> made;
  const std::scoped_lock lock(mutex);
  const auto found = made.find(n);
  return found != made.end() ? found->second : made.emplace(n, SignSketch(n, kSeed)).first->second;
}

}  // namespace tare
