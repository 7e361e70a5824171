// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/rotary_factors.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace tare::gguf {
namespace {

// Waves per token of each frequency.
std::vector<double> WavesPerToken(size_t count, double theta) {
  std::vector<double> waves;
  for (size_t i = 0; i < count; ++i)
    waves.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(count)) / (2 * std::numbers::pi));
  return waves;
}

double DivisorFor(const RotaryFactors& r, double waves) {
  if (waves > r.high / r.original) return 1;
  if (waves < r.low / r.original) return r.factor;
  const double s = (r.original * waves - r.low) / (r.high - r.low);
  return 1 / ((1 - s) / r.factor + s);
}

bool Makes(const RotaryFactors& r, std::span<const float> divisors, const std::vector<double>& waves) {
  constexpr double kNear = 1e-5;  // the converter computes in f32
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double expected = DivisorFor(r, waves[i]);
    if (!(std::abs(static_cast<double>(divisors[i]) - expected) <= kNear * expected)) return false;
  }
  return true;
}

// From two divisors between 1 and the factor: s is a line over waves per token.
std::optional<RotaryFactors> Solved(double factor, std::span<const float> divisors, const std::vector<double>& waves) {
  std::vector<std::pair<double, double>> between;  // waves per token, s
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double f = divisors[i];
    if (f > 1 && f < factor) between.emplace_back(waves[i], (1 / f - 1 / factor) / (1 - 1 / factor));
  }
  if (between.size() < 2) return std::nullopt;
  const auto [x0, s0] = between.front();
  const auto [x1, s1] = between.back();
  const double slope = (s1 - s0) / (x1 - x0), at_zero = s0 - slope * x0;  // original / (high - 1), -1 / (high - 1)
  RotaryFactors r{.factor = factor, .low = 1, .high = 1 - 1 / at_zero, .original = -slope / at_zero};
  r.original = std::round(r.original);  // of tokens
  if (const double nearest = std::round(r.high * 1024) / 1024; std::abs(nearest - r.high) < 1e-3 * r.high)
    r.high = nearest;
  return r;
}

}  // namespace

std::optional<RotaryFactors> FindRotaryFactors(std::span<const float> divisors, double theta) {
  if (divisors.empty() || !(theta > 1)) return std::nullopt;
  const std::vector<double> waves = WavesPerToken(divisors.size(), theta);
  const double factor = *std::ranges::max_element(divisors);
  if (!std::isfinite(factor) || !(factor > 1)) return std::nullopt;
  const RotaryFactors usual{.factor = factor};  // of Llama 3.1, 3.2 and 3.3
  if (Makes(usual, divisors, waves)) return usual;
  // Few frequencies may leave several answers, which compute the same: the first.
  for (double original = 2; original <= 1 << 24; original *= 2) {
    const RotaryFactors like{.factor = factor, .original = original};
    if (Makes(like, divisors, waves)) return like;
  }
  const std::optional<RotaryFactors> solved = Solved(factor, divisors, waves);
  return solved && solved->high > solved->low && solved->original >= 1 && Makes(*solved, divisors, waves)
             ? solved
             : std::nullopt;
}

}  // namespace tare::gguf
