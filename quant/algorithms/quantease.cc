// SPDX-License-Identifier: Apache-2.0
// See quantease.h.
#include "quant/algorithms/quantease.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

// One row at work.
struct QuantEase::Row {
  Format format;
  int64_t group;
  std::vector<float> weights;   // w [in]
  std::vector<int8_t> codes;    // [in]
  std::vector<float> scales;    // [in / group]
  std::vector<float> gradient;  // g = (w - q) H [in]

  float Value(int64_t i) const { return static_cast<float>(codes[i]) * scales[i / group]; }
};

QuantEase::QuantEase(const std::vector<float>& hessian, int64_t in, double damping) : in_(in), hessian_(hessian) {
  TARE_CHECK(static_cast<int64_t>(hessian.size()) == in * in);
  double mean = 0;
  for (int64_t i = 0; i < in; ++i) mean += double{hessian[i * in + i]} / static_cast<double>(in);
  if (mean <= 0) mean = 1;  // no input ever differed from 0
  for (int64_t i = 0; i < in; ++i) {
    float& diagonal = hessian_[i * in + i];
    diagonal += static_cast<float>(damping * mean + (diagonal == 0 ? mean : 0));
    for (int64_t j = 0; j < i; ++j) hessian_[i * in + j] = hessian_[j * in + i];
  }
}

void QuantEase::FitScales(Row& row) const {
  const int64_t n = in_, groups = n / row.group;
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(groups, groups);
  Eigen::VectorXd b = Eigen::VectorXd::Zero(groups);
  std::vector<bool> used(static_cast<size_t>(groups));
  std::vector<double> product(static_cast<size_t>(n));  // H c_g, c_g: the codes of group g and zeros
  for (int64_t g = 0; g < groups; ++g) {
    std::ranges::fill(product, 0.0);
    for (int64_t i = g * row.group; i < (g + 1) * row.group; ++i) {
      if (row.codes[i] == 0) continue;
      const float* h = hessian_.data() + i * n;
      const auto code = static_cast<double>(row.codes[i]);
      for (int64_t j = 0; j < n; ++j) product[j] += code * double{h[j]};
    }
    for (int64_t j = 0; j < n; ++j) {
      a(g, j / row.group) += product[j] * static_cast<double>(row.codes[j]);
      b(g) += product[j] * double{row.weights[j]};
    }
    used[g] = a(g, g) > 0;
    if (!used[g]) a(g, g) = b(g) = 1;  // all its codes are 0: any scale will do
  }
  const Eigen::VectorXd best = a.ldlt().solve(b);
  // A scale is positive; where the best is not, the row keeps those it has.
  if (!(best.array() > 0).all() || !best.allFinite()) return;
  for (int64_t g = 0; g < groups; ++g) {
    if (used[g]) row.scales[g] = static_cast<float>(best(g));
  }
}

bool QuantEase::Sweep(Row& row) const {
  const int64_t n = in_;
  std::ranges::fill(row.gradient, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    const float e = row.weights[i] - row.Value(i);
    const float* h = hessian_.data() + i * n;
    for (int64_t j = 0; j < n; ++j) row.gradient[j] += e * h[j];
  }
  bool changed = false;
  for (int64_t i = 0; i < n; ++i) {
    const float scale = row.scales[i / row.group];
    if (scale == 0) continue;
    const float* h = hessian_.data() + i * n;
    const auto code = static_cast<int8_t>(CodeOf(row.Value(i) + row.gradient[i] / h[i], 1 / scale, row.format));
    if (code == row.codes[i]) continue;
    const float moved = static_cast<float>(code - row.codes[i]) * scale;
    row.codes[i] = code;
    for (int64_t j = 0; j < n; ++j) row.gradient[j] -= moved * h[j];
    changed = true;
  }
  return changed;
}

void QuantEase::Improve(const std::function<void(int64_t, float*)>& read, int sweeps,
                        QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  TARE_CHECK(m.in == in_);
  const auto n = static_cast<size_t>(in_);
  ParallelFor(static_cast<size_t>(m.out), [&](size_t r, int) {
    const auto index = static_cast<int64_t>(r);
    Row row{m.format,
            m.group,
            std::vector<float>(n),
            std::vector<int8_t>(n),
            {matrix.Scales(index), matrix.Scales(index) + m.Groups()},
            std::vector<float>(n)};
    read(index, row.weights.data());
    Unpack<int8_t>(m.format, {matrix.Codes(index), m.RowBytes()}, row.codes);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      FitScales(row);
      if (!Sweep(row)) break;
    }
    std::ranges::copy(row.scales, matrix.Scales(index));
    Pack<int8_t>(m.format, row.codes, {matrix.Codes(index), m.RowBytes()});
  });
}

}  // namespace tare
