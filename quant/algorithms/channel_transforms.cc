// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_transforms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <Eigen/Core>
#include <Eigen/LU>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int kShrinks = kAwqRatios / 2;  // down to 0.55 of the range: llm-awq's max_shrink is a half

// Rows whose groups are tried together, so that a block of H is read once for all their clips.
constexpr int64_t kRowsTried = 16;

Ends Clipped(Ends widest, int clip) {
  const float largest = std::max(std::fabs(widest.low), std::fabs(widest.high));
  const float kept = largest * (1.0f - static_cast<float>(clip) / kAwqRatios);
  return {std::max(widest.low, -kept), std::min(widest.high, kept)};
}

// The ends of group g of these rows, w [rows, n], into ends[row * groups + g].
void ChooseGroup(const Floats& w, const QuantizedMatrix& matrix, int64_t g, const Eigen::Ref<const Floats>& h,
                 Ends* ends) {
  const int64_t rows = w.rows(), n = w.cols();
  std::vector<Ends> tried(static_cast<size_t>(rows * kShrinks));
  Floats errors(rows * kShrinks, n);
  for (int64_t r = 0; r < rows; ++r) {
    const Ends widest = EndsOf({w.row(r).data(), static_cast<size_t>(n)}, matrix.format);
    for (int clip = 0; clip < kShrinks; ++clip) {
      const int64_t at = r * kShrinks + clip;
      tried[at] = Clipped(widest, clip);
      RoundedValues(w.row(r).data(), n, GroupScaleFor(tried[at], matrix.format, tried[at].high), matrix.format,
                    errors.row(at).data());
    }
    errors.middleRows(r * kShrinks, kShrinks).rowwise() -= w.row(r);
  }
  const Floats products = errors * h;
  for (int64_t r = 0; r < rows; ++r) {
    double least = HUGE_VAL;
    for (int64_t at = r * kShrinks; at < (r + 1) * kShrinks; ++at) {
      double error = 0;
      for (int64_t i = 0; i < n; ++i) error += double{products(at, i)} * double{errors(at, i)};
      if (error < least) least = error, ends[r * matrix.Groups() + g] = tried[at];
    }
  }
}

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

std::vector<float> SmoothingFactors(std::span<const float> input, std::span<const float> weight, double alpha) {
  CheckEqual("smoothing", "weights", std::ssize(weight), std::ssize(input));
  if (!(alpha >= 0 && alpha <= 1)) Fail("smoothing: got an alpha of {}, expected 0 to 1", alpha);
  std::vector<float> s(input.size(), 1.0f);
  for (size_t j = 0; j < s.size(); ++j) {
    if (input[j] == 0 || weight[j] == 0) continue;
    const double factor = std::pow(double{input[j]}, alpha) / std::pow(double{weight[j]}, 1 - alpha);
    s[j] = static_cast<float>(std::clamp(factor, 1e-5, 1e5));
  }
  return s;
}

std::vector<float> AwqFactors(std::span<const double> magnitudes, int ratio) {
  CheckRange("AWQ", "ratio", ratio, 0, kAwqRatios - 1);
  constexpr double kSmallest = 1e-4;
  double least = HUGE_VAL, most = 0;
  std::vector<double> raw(magnitudes.size(), 0.0);
  for (size_t j = 0; j < raw.size(); ++j) {
    if (magnitudes[j] == 0) continue;
    raw[j] = std::max(std::pow(magnitudes[j], static_cast<double>(ratio) / kAwqRatios), kSmallest);
    least = std::min(least, raw[j]);
    most = std::max(most, raw[j]);
  }
  std::vector<float> s(raw.size(), 1.0f);
  for (size_t j = 0; j < raw.size(); ++j) {
    if (raw[j] > 0) s[j] = static_cast<float>(raw[j] / std::sqrt(most * least));
  }
  return s;
}

std::vector<Ends> AwqEnds(const ReadRow& read, const QuantizedMatrix& matrix, std::span<const float> moments) {
  CheckSquare("AWQ", moments.size(), matrix.in);
  const Eigen::Map<const Floats> h(moments.data(), matrix.in, matrix.in);
  std::vector<Ends> ends(static_cast<size_t>(matrix.out * matrix.Groups()));
  ParallelForBlocks(matrix.out, kRowsTried, [&](int64_t first, int64_t rows) {
    Floats w(rows, matrix.in);
    for (int64_t r = 0; r < rows; ++r) {
      read(first + r, w.row(r).data());
      if (const auto bad = FirstNotFinite({w.row(r).data(), static_cast<size_t>(matrix.in)}))
        Fail("weights, row {}: got {} at {}, expected finite values", first + r, w(r, *bad), *bad);
    }
    for (int64_t g = 0; g < matrix.Groups(); ++g) {
      const int64_t begin = g * matrix.group, n = matrix.GroupEnd(g) - begin;
      ChooseGroup(w.middleCols(begin, n), matrix, g, h.block(begin, begin, n, n),
                  ends.data() + first * matrix.Groups());
    }
  });
  return ends;
}

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
    const auto largest = std::ranges::max_element(w, {}, [](float x) { return std::fabs(x); });
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
