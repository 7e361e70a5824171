// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/quantease.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <span>

#include "quant/algorithms/gptq.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows improved together, so that H, which fits no cache, is read from memory once for all of them; fewer if their
// systems of scales would take more than 64 MB per thread.
int64_t RowsTogether(int64_t groups) { return std::clamp<int64_t>((int64_t{64} << 20) / (8 * groups * groups), 1, 16); }

}  // namespace

// A block of rows in progress, with codes as their values before the scale.
struct QuantEase::Block {
  Block(const QuantizedMatrix& m, int64_t first_row, int64_t count)
      : format(m.format),
        group(m.group),
        groups(m.Groups()),
        first(first_row),
        rows(count),
        weights(count, m.in),
        codes(count, m.in),
        gradient(count, m.in),
        scales(count, m.Groups()),
        zeros(count, m.Groups()),
        done(static_cast<size_t>(count), false) {}

  // Of a group: a row's last may be short.
  int64_t Width(int64_t g) const { return std::min(group, codes.cols() - g * group); }

  Format format;
  int64_t group, groups, first, rows;
  // w less the minimum of its group, q / scale, g = (w - q) H   [rows, in]. Codes are less their zero point.
  Matrix weights, codes, gradient;
  Matrix scales, zeros;    // [rows, groups]
  std::vector<bool> done;  // a sweep changed nothing here
};

QuantEase::QuantEase(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where)
    : in_(in), hessian_(hessian) {
  TARE_CHECK(static_cast<int64_t>(hessian.size()) == in * in);
  for (int64_t i = 0; i < in; ++i) {
    if (FirstNotFinite(std::span(hessian).subspan(static_cast<size_t>(i * in + i), static_cast<size_t>(in - i))))
      Fail("{}: the calibration's second moments hold NaN or infinity; try another calibration text", where);
  }
  const double mean = MeanOfDiagonal(hessian, in);
  for (int64_t i = 0; i < in; ++i) {
    float& diagonal = hessian_[i * in + i];
    diagonal += static_cast<float>(damping * mean + (diagonal == 0 ? mean : 0));
    for (int64_t j = 0; j < i; ++j) hessian_[i * in + j] = hessian_[j * in + i];
  }
}

void QuantEase::FitScales(Block& block) const {
  const Eigen::Map<const Matrix> h(hessian_.data(), in_, in_);
  const int64_t groups = block.groups;
  std::vector<Eigen::MatrixXd> a(static_cast<size_t>(block.rows), Eigen::MatrixXd::Zero(groups, groups));
  Eigen::MatrixXd b = Eigen::MatrixXd::Zero(groups, block.rows);
  Matrix product(block.rows, in_);  // c_g H, c_g: the codes of group g and zeros
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * block.group, width = block.Width(g);
    product.noalias() = block.codes.middleCols(first, width) * h.middleRows(first, width);
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t j = 0; j < in_; ++j) {
        a[r](g, j / block.group) += double{product(r, j)} * double{block.codes(r, j)};
        b(g, r) += double{product(r, j)} * double{block.weights(r, j)};
      }
    }
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    if (block.done[r]) continue;
    std::vector<bool> used(static_cast<size_t>(groups));
    for (int64_t g = 0; g < groups; ++g) {
      used[g] = a[r](g, g) > 0;
      if (!used[g]) a[r](g, g) = b(g, r) = 1;  // all its codes are 0: any scale will do
    }
    const Eigen::VectorXd best = a[r].ldlt().solve(b.col(r));
    // A scale is positive; where the best is not, the row keeps those it has.
    if (!best.allFinite() || !(best.array() > 0).all()) continue;
    for (int64_t g = 0; g < groups; ++g) {
      if (used[g]) block.scales(r, g) = static_cast<float>(best(g));
    }
  }
}

void QuantEase::Sweep(Block& block) const {
  const Eigen::Map<const Matrix> h(hessian_.data(), in_, in_);
  Matrix error = block.weights;
  for (int64_t g = 0; g < block.groups; ++g) {
    const auto columns = Eigen::seqN(g * block.group, block.Width(g));
    error(Eigen::all, columns) -= block.scales.col(g).asDiagonal() * block.codes(Eigen::all, columns);
  }
  block.gradient.noalias() = error * h;
  std::vector<bool> changed(static_cast<size_t>(block.rows), false);
  for (int64_t i = 0; i < in_; ++i) {
    const float* h_row = hessian_.data() + i * in_;
    for (int64_t r = 0; r < block.rows; ++r) {
      const float scale = block.scales(r, i / block.group), code = block.codes(r, i);
      if (scale == 0 || block.done[r]) continue;
      const float best = code * scale + block.gradient(r, i) / h_row[i];
      const GroupScale group{.scale = {1 / scale, scale}, .zero = block.zeros(r, i / block.group)};
      const float nearest = RoundedIn(best, group, block.format) - group.zero;
      if (nearest == code) continue;
      const float moved = (nearest - code) * scale;
      block.codes(r, i) = nearest;
      float* gradient = block.gradient.row(r).data();
      for (int64_t j = 0; j < in_; ++j) gradient[j] -= moved * h_row[j];
      changed[r] = true;
    }
  }
  for (int64_t r = 0; r < block.rows; ++r) block.done[r] = !changed[r];
}

void QuantEase::Improve(const std::function<void(int64_t, float*)>& read, int sweeps,
                        QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  TARE_CHECK(m.in == in_);
  const bool fits_scales = Info(m.format).scale == ScaleType::kF32;
  const int64_t together = RowsTogether(m.Groups());
  ParallelFor(static_cast<size_t>((m.out + together - 1) / together), [&](size_t index, int) {
    const int64_t first = static_cast<int64_t>(index) * together;
    Block block(m, first, std::min(together, m.out - first));
    const auto in = static_cast<size_t>(in_);
    for (int64_t r = 0; r < block.rows; ++r) {
      read(first + r, block.weights.row(r).data());
      Unpack<float>(m.format, {matrix.Codes(first + r), m.RowBytes()}, {block.codes.row(r).data(), in});
      for (int64_t g = 0; g < block.groups; ++g) {
        const auto columns = Eigen::seqN(g * block.group, block.Width(g));
        block.scales(r, g) = m.ScaleOf(first + r, g);
        block.zeros(r, g) = m.ZeroOf(first + r, g);
        block.codes.row(r)(columns).array() -= block.zeros(r, g);
        block.weights.row(r)(columns).array() -= m.MinimumOf(first + r, g);
      }
    }
    for (int sweep = 0; sweep < sweeps && std::ranges::count(block.done, false) > 0; ++sweep) {
      if (fits_scales) FitScales(block);
      Sweep(block);
    }
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t g = 0; g < block.groups; ++g)
        block.codes.row(r)(Eigen::seqN(g * block.group, block.Width(g))).array() += block.zeros(r, g);
      Pack<float>(m.format, {block.codes.row(r).data(), in}, {matrix.Codes(first + r), m.RowBytes()});
      if (fits_scales) std::copy_n(block.scales.row(r).data(), block.groups, matrix.Scales(first + r));
    }
  });
}

}  // namespace tare
