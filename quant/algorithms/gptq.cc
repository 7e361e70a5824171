// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/gptq.h"

#include <algorithm>
#include <numeric>

#include <Eigen/Core>

#include "quant/algorithms/cholesky.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// Rows rounded together, so that a row of U read from memory serves several.
constexpr int64_t kRowsTogether = 16;

}  // namespace

GptqFactor::GptqFactor(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where)
    : order_(static_cast<size_t>(in)), upper_(static_cast<size_t>(in * in), 0.0f) {
  TARE_CHECK(hessian.size() == upper_.size());
  if (const auto bad = FirstNotFinite(hessian))
    Fail("{}: the calibration's second moments hold NaN or infinity at {}; try another calibration text", where, *bad);
  const auto diagonal = [&](int64_t i) { return double{hessian[i * in + i]}; };
  const double mean = MeanOfDiagonal(hessian, in);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  std::ranges::stable_sort(order_, std::ranges::greater(), diagonal);
  // Backwards: row i of the factor is the input that goes (in - 1 - i)-th.
  for (int64_t i = 0; i < in; ++i) {
    float* const row = &upper_[i * in];
    for (int64_t j = 0; j <= i; ++j) {
      const auto [a, b] = std::minmax(order_[in - 1 - i], order_[in - 1 - j]);
      row[j] = hessian[a * in + b];
    }
    row[i] = static_cast<float>(double{row[i]} + damping * mean + (row[i] == 0 ? mean : 0));
  }
  if (!FactorInPlace(in, upper_.data())) {
    Fail(
        "{}: the calibration's second moments are not positive definite; try a longer calibration text, or more "
        "damping",
        where);
  }
  InvertInPlace(in, upper_.data());
  std::ranges::reverse(upper_);  // L^-1 lower and backwards is U
}

void GptqFactor::Round(const std::function<void(int64_t, float*)>& read, ClipChoice choice,
                       QuantizedMatrixBuffer& matrix) const {
  const Format format = matrix.view().format;
  Round(
      read, [&](int64_t, int64_t, const float* values, int64_t n) { return ChooseEnds(values, n, format, choice); },
      matrix);
}

void GptqFactor::Round(const std::function<void(int64_t, float*)>& read, const GroupEnds& ends,
                       QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  TARE_CHECK(m.in == in());
  ParallelFor(static_cast<size_t>((m.out + kRowsTogether - 1) / kRowsTogether), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kRowsTogether;
    RoundRows(first, std::min(kRowsTogether, m.out - first), read, ends, matrix);
  });
}

void GptqFactor::RoundRows(int64_t first, int64_t count, const std::function<void(int64_t, float*)>& read,
                           const GroupEnds& ends, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  const int64_t n = m.in, groups = m.Groups();
  std::vector<float> stored(static_cast<size_t>(n)), values(static_cast<size_t>(count * n));  // in the order of work
  std::vector<GroupScale> scales(static_cast<size_t>(count * groups));
  std::vector<float> codes(static_cast<size_t>(count * n));  // what they stand for before the scale
  for (int64_t r = 0; r < count; ++r) {
    read(first + r, stored.data());
    if (const auto bad = FirstNotFinite(stored))
      Fail("weights, row {}: got {} at {}, expected finite values", first + r, stored[*bad], *bad);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = g * m.group;
      const Ends chosen = ends(first + r, g, stored.data() + begin, m.GroupEnd(g) - begin);
      scales[r * groups + g] = matrix.SetScale(first + r, g, chosen);
    }
    for (int64_t i = 0; i < n; ++i) values[r * n + i] = stored[order_[i]];
  }
  for (int64_t i = 0; i < n; ++i) {
    const float* u = upper_.data() + i * n;
    for (int64_t r = 0; r < count; ++r) {
      float* w = values.data() + r * n;
      const GroupScale& group = scales[r * groups + order_[i] / m.group];
      const float code = RoundedIn(w[i], group, m.format);
      codes[r * n + order_[i]] = code;
      const float error = (w[i] - ValueOf(code, group)) / u[i];
      for (int64_t j = i + 1; j < n; ++j) w[j] -= error * u[j];
    }
  }
  for (int64_t r = 0; r < count; ++r)
    Pack<float>(m.format, std::span(codes).subspan(static_cast<size_t>(r * n), static_cast<size_t>(n)),
                {matrix.Codes(first + r), m.RowBytes()});
}

AsymmetricTarget::AsymmetricTarget(const std::vector<float>& hessian, const std::vector<float>& cross, int64_t in,
                                   double damping, const std::string& where)
    : in_(in), change_(cross) {
  TARE_CHECK(static_cast<int64_t>(hessian.size()) == in * in && hessian.size() == cross.size());
  if (FirstNotFinite(hessian) || FirstNotFinite(cross))
    Fail("{}: the calibration's moments hold NaN or infinity; try another calibration text", where);
  const double mean = MeanOfDiagonal(hessian, in);
  std::vector<float> factor(hessian.size());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j <= i; ++j) factor[i * in + j] = hessian[j * in + i];
    factor[i * in + i] = static_cast<float>(double{hessian[i * in + i]} + damping * mean);
  }
  if (!FactorInPlace(in, factor.data()))
    Fail("{}: the calibration's second moments are not positive definite; try a longer calibration text", where);
  InvertInPlace(in, factor.data());
  MultiplyByInverse(in, factor.data(), in, change_.data());
}

void AsymmetricTarget::Correct(int64_t rows, float* w) const {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr int64_t kRows = 64;  // share a reading of the change, which no cache holds
  const Eigen::Map<const Floats> change(change_.data(), in_, in_);
  ParallelFor(static_cast<size_t>((rows + kRows - 1) / kRows), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kRows;
    Eigen::Map<Floats> part(w + first * in_, std::min(kRows, rows - first), in_);
    const Floats stored = part;
    part.noalias() += stored * change;
  });
}

}  // namespace tare
