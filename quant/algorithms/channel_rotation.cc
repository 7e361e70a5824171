// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_rotation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <Eigen/Core>
#include <Eigen/LU>

#include "quant/base/message.h"
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

ChannelRotation::ChannelRotation(Hadamard first, std::vector<double> learned)
    : first_(std::move(first)), learned_(std::move(learned)) {
  if (!learned_.empty()) CheckEqual("rotation", "learned values", std::ssize(learned_), size() * size());
}

ChannelRotation ChannelRotation::KeepingTheMean(Hadamard first) {
  ChannelRotation rotation(std::move(first));
  std::vector<float> ones(static_cast<size_t>(rotation.size()), 1.0f);
  rotation.first_.Rotate(ones.data(), ones.data());
  std::vector<double> w;
  for (const float x : ones) w.push_back(double{x} - 1);
  const double square = std::inner_product(w.begin(), w.end(), w.begin(), 0.0);
  if (square == 0) return rotation;  // it keeps them itself
  for (double& x : w) x *= std::sqrt(2 / square);
  rotation.mirror_ = std::move(w);
  return rotation;
}

void ChannelRotation::Rotate(const float* x, float* y) const {
  first_.Rotate(x, y);
  if (!mirror_.empty()) {
    const double along = std::inner_product(mirror_.begin(), mirror_.end(), y, 0.0);
    for (int64_t i = 0; i < size(); ++i) y[i] = static_cast<float>(y[i] - along * mirror_[static_cast<size_t>(i)]);
  }
  if (learned_.empty()) return;
  thread_local std::vector<double> sums;
  sums.assign(static_cast<size_t>(size()), 0.0);
  for (int64_t i = 0; i < size(); ++i) {
    const double value = y[i];
    const double* const row = learned_.data() + i * size();
    for (int64_t j = 0; j < size(); ++j) sums[static_cast<size_t>(j)] += value * row[j];
  }
  for (int64_t j = 0; j < size(); ++j) y[j] = static_cast<float>(sums[static_cast<size_t>(j)]);
}

void CayleyStep(int64_t n, std::span<const double> m, double angle, std::vector<double>& q) {
  using Square = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  CheckSquare("Cayley step", m.size(), n);
  CheckSquare("Cayley step", q.size(), n);
  const Eigen::Map<const Square> gradient(m.data(), n, n);
  Square k = gradient - gradient.transpose();
  const double norm = k.norm();
  if (norm == 0) return;
  k *= angle / 2 * std::sqrt(static_cast<double>(n)) / norm;
  const Square unit = Square::Identity(n, n);
  const Square factor = (unit + k).partialPivLu().solve(unit - k);
  Eigen::Map<Square> at(q.data(), n, n);
  at = (at * factor).eval();
}

void AddErrorGrowth(const Format& format, std::span<const float> w, std::span<const float> e, std::span<const float> p,
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
