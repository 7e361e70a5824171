// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/quantease.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

// Rows in progress are lanes, zeros beyond `rows`. Codes are their values before the scale, less their zero point.
struct QuantEase::Block {
  Block(const QuantizedMatrix& m, int64_t first_row, int64_t count)
      : matrix(m),
        group(m.group),
        groups(m.Groups()),
        first(first_row),
        rows(count),
        weights(Panels::Zeros(m.in)),
        codes(Panels::Zeros(m.in)),
        moves(Panels::Zeros(m.in)),
        gradient(Panels::Zeros(m.in)),
        wanted(Panels::Zeros(m.in)),
        scales(static_cast<size_t>(groups * kRowsTogether)),
        zeros(scales.size()) {}

  float& Scale(int64_t g, int64_t row) { return scales[g * kRowsTogether + row]; }
  float& Zero(int64_t g, int64_t row) { return zeros[g * kRowsTogether + row]; }

  const QuantizedMatrix& matrix;
  int64_t group, groups, first, rows;
  AlignedBuffer<float> weights;   // [in][kRowsTogether] w less the minimum of its group
  AlignedBuffer<float> codes;     // [in][kRowsTogether]
  AlignedBuffer<float> moves;     // [in][kRowsTogether] what x H is made of: errors, or what codes moved by
  AlignedBuffer<float> gradient;  // [in][kRowsTogether] g = (w - q) H
  AlignedBuffer<float> wanted;    // [in][kRowsTogether] w H
  std::vector<float> scales;      // [groups][kRowsTogether]
  std::vector<float> zeros;       // [groups][kRowsTogether]
  bool done[kRowsTogether] = {};  // a sweep changed nothing here
};

QuantEase::QuantEase(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where)
    : in_(in) {
  std::vector<float> damped = BothTriangles(hessian, in, where);
  const double mean = MeanOfDiagonal(hessian, in);
  for (int64_t i = 0; i < in; ++i) {
    float& diagonal = damped[i * in + i];
    diagonal += static_cast<float>(damping * mean + (diagonal == 0 ? mean : 0));
  }
  hessian_ = Panels(Panels::Shape::kFull, in, damped.data());
}

// With c_g the codes of group g and zeros, the scales s solve A s = b: A_gh = c_g H c_h, and b_g = c_g H w.
void QuantEase::FitScales(Block& block) const {
  const int64_t groups = block.groups;
  std::vector<Eigen::MatrixXd> a(static_cast<size_t>(block.rows), Eigen::MatrixXd::Zero(groups, groups));
  Eigen::MatrixXd b = Eigen::MatrixXd::Zero(groups, block.rows);
  AlignedBuffer<float>& product = block.gradient;  // c_g H, of the groups from g on: A is symmetric
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * block.group, end = std::min(first + block.group, in_);
    std::fill(&product[first / kPanel * kPanel * kRowsTogether], product.data() + product.size(), 0.0f);
    hessian_.AddProducts({first, end}, {first / kPanel, hessian_.count()}, block.codes.data(), product.data());
    for (int64_t other = g; other < groups; ++other) {
      double sums[kRowsTogether] = {};
      const int64_t begin = other * block.group;
      for (int64_t i = begin * kRowsTogether; i < std::min(begin + block.group, in_) * kRowsTogether; ++i)
        sums[i % kRowsTogether] += double{product[i]} * double{block.codes[i]};
      for (int64_t r = 0; r < block.rows; ++r) a[r](other, g) = a[r](g, other) = sums[r];
    }
    for (int64_t i = first; i < end; ++i) {
      for (int64_t r = 0; r < block.rows; ++r) {
        const int64_t at = i * kRowsTogether + r;
        b(g, r) += double{block.codes[at]} * double{block.wanted[at]};
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
      if (used[g]) block.Scale(g, r) = static_cast<float>(best(g));
    }
  }
}

// Changes of kColumnsLater columns reach the gradients of those behind them in one product; none is looked at before.
void QuantEase::Sweep(Block& block) const {
  for (int64_t i = 0; i < in_; ++i) {
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      const int64_t at = i * kRowsTogether + r;
      block.moves[at] = block.weights[at] - block.Scale(i / block.group, r) * block.codes[at];
    }
  }
  const auto add = [&](Range columns, Range panels) {
    hessian_.AddProducts(columns, panels, block.moves.data(), block.gradient.data());
  };
  std::fill_n(block.gradient.data(), block.gradient.size(), 0.0f);
  add({0, in_}, {0, hessian_.count()});
  std::fill_n(block.moves.data(), block.moves.size(), 0.0f);
  for (int64_t first = 0; first < in_; first += kColumnsLater) {
    const int64_t end = std::min(first + kColumnsLater, in_);
    for (int64_t panel = first; panel < end; panel += kPanel) {
      add({first, panel}, {panel / kPanel, panel / kPanel + 1});
      for (int64_t column = panel; column < std::min(panel + kPanel, end); ++column) ImproveColumn(column, block);
    }
    add({first, end}, {first / kPanel + kColumnsLater / kPanel, hessian_.count()});
  }
  bool changed[kRowsTogether] = {};
  for (size_t at = 0; at < block.moves.size(); ++at) changed[at % kRowsTogether] |= block.moves[at] != 0;
  for (int64_t r = 0; r < block.rows; ++r) block.done[r] = !changed[r];
}

// One column of all rows; its changes reach the gradients behind it in its panel.
void QuantEase::ImproveColumn(int64_t column, Block& block) const {
  const int64_t g = column / block.group, at = column * kRowsTogether;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float scale = block.Scale(g, r), code = block.codes[at + r];
    if (scale == 0 || block.done[r]) continue;
    const float best = code * scale + block.gradient[at + r] / hessian_.At(column, column);
    const float inv = block.matrix.IsEven(block.first + r, g) ? -1 / scale : 1 / scale;
    const GroupScale group{.scale = {inv, scale}, .zero = block.Zero(g, r)};
    const float nearest = RoundedIn(best, group, block.matrix.format) - group.zero;
    block.codes[at + r] = nearest;
    block.moves[at + r] = (code - nearest) * scale;
  }
  for (int64_t other = column + 1; other % kPanel != 0; ++other) {
    float* const behind = &block.gradient[other * kRowsTogether];
    for (int64_t r = 0; r < kRowsTogether; ++r) behind[r] += hessian_.At(column, other) * block.moves[at + r];
  }
}

// What is stored of a block's rows.
void QuantEase::Read(const ReadRow& read, const QuantizedMatrix& m, Block& block) const {
  std::vector<float> weights(static_cast<size_t>(in_)), codes(weights.size());
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t row = block.first + r;
    read(row, weights.data());
    UnpackRow(m, row, codes);
    for (int64_t g = 0; g < block.groups; ++g) {
      block.Scale(g, r) = m.ScaleOf(row, g);
      block.Zero(g, r) = m.ZeroOf(row, g);
    }
    for (int64_t i = 0; i < in_; ++i) {
      block.codes[i * kRowsTogether + r] = codes[i] - block.Zero(i / block.group, r);
      block.weights[i * kRowsTogether + r] = weights[i] - m.MinimumOf(row, i / block.group);
    }
  }
}

void QuantEase::Improve(const ReadRow& read, int sweeps, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  CheckEqual("QuantEase", "inputs", m.in, in_);
  const bool fits_scales = m.format.scale == ScaleType::kF32;
  // Fewer rows than lanes if their systems of scales would take more than 64 MB per thread.
  const int64_t groups = m.Groups(),
                together = std::clamp<int64_t>((int64_t{64} << 20) / (8 * groups * groups), 1, kRowsTogether);
  ParallelForBlocks(m.out, together, [&](int64_t first, int64_t rows) {
    Block block(m, first, rows);
    Read(read, m, block);
    if (fits_scales) hessian_.AddProducts({0, in_}, {0, hessian_.count()}, block.weights.data(), block.wanted.data());
    for (int sweep = 0; sweep < sweeps && std::count(block.done, block.done + block.rows, false) > 0; ++sweep) {
      if (fits_scales) FitScales(block);
      Sweep(block);
    }
    std::vector<float> codes(static_cast<size_t>(in_));
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t i = 0; i < in_; ++i) codes[i] = block.codes[i * kRowsTogether + r] + block.Zero(i / block.group, r);
      Pack<float>(m.format, codes, {matrix.Codes(first + r), m.RowBytes()});
      for (int64_t g = 0; fits_scales && g < block.groups; ++g) matrix.Scales(first + r)[g] = block.Scale(g, r);
    }
  });
}

}  // namespace tare
