// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/channel_factors.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Core>

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

}  // namespace tare
