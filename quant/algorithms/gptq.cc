// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

// Some rows while they are rounded: lanes are rows, and columns stand in the order of work.
struct GptqFactor::RowsInWork {
  RowsInWork(int64_t first_row, const GroupEnds& group_ends, QuantizedMatrixBuffer& to)
      : ends(group_ends),
        matrix(to),
        first(first_row),
        count(std::min(kRowsTogether, to.view().out - first_row)),
        scales(static_cast<size_t>(kRowsTogether * to.view().Groups())) {
    for (AlignedBuffer<float>* buffer : {&errors, &sums, &codes}) *buffer = Panels::Zeros(to.view().in);
  }

  // Sets the scale of a row's group from the values that it is to hold.
  void SetScale(int64_t r, int64_t g, const float* values) {
    const int64_t n = matrix.view().GroupEnd(g) - g * matrix.view().group;
    scales[g * kRowsTogether + r] = matrix.SetScale(first + r, g, ends(first + r, g, values, n));
  }

  const GroupEnds& ends;
  QuantizedMatrixBuffer& matrix;
  int64_t first, count;
  AlignedBuffer<float> errors;     // [in][kRowsTogether] the weights, and w - q once they are rounded
  AlignedBuffer<float> sums;       // [in][kRowsTogether] errors of the columns before, times R
  AlignedBuffer<float> codes;      // [in][kRowsTogether] their values before the scale, in storage order
  AlignedBuffer<float> moved;      // [in][kRowsTogether] how far a beginning group's weights move; sized on first use
  std::vector<GroupScale> scales;  // [groups][kRowsTogether]
};

namespace {

// The inputs by falling mean of H's diagonal over `together` neighbours, which stay together; or as stored.
std::vector<int64_t> OrderOf(const std::vector<float>& hessian, int64_t in, int64_t together, GptqOrder by) {
  std::vector<double> means(static_cast<size_t>(in / together));
  for (int64_t i = 0; i < in; ++i) means[i / together] += double{hessian[i * in + i]};
  std::vector<int64_t> blocks(means.size()), order;
  std::iota(blocks.begin(), blocks.end(), int64_t{0});
  if (by == GptqOrder::kFalling)
    std::ranges::stable_sort(blocks, std::ranges::greater(), [&](int64_t block) { return means[block]; });
  for (const int64_t block : blocks) {
    for (int64_t i = 0; i < together; ++i) order.push_back(block * together + i);
  }
  return order;
}

}  // namespace

GptqFactor::GptqFactor(const std::vector<float>& hessian, int64_t in, double damping, const std::string& where,
                       int64_t together, GptqOrder order)
    : by_(order) {
  CheckSquare(where, hessian.size(), in);
  CheckRange(where, "inputs that share a code", together, 1, in);
  if (!(damping >= 0 && std::isfinite(damping))) Fail("{}: got a damping of {}, expected 0 or more", where, damping);
  if (const auto bad = FirstNotFinite(hessian))
    Fail("{}: the calibration's second moments hold NaN or infinity at {}; try another calibration text", where, *bad);
  const double mean = MeanOfDiagonal(hessian, in);
  if (in % together != 0) Fail("{}: got {} inputs, expected a multiple of {}, which share a code", where, in, together);
  order_ = OrderOf(hessian, in, together, order);
  // Backwards: row i of the factor is the input that goes (in - 1 - i)-th.
  std::vector<float> factor(hessian.size(), 0.0f);
  ParallelFor(static_cast<size_t>(in), [&](size_t index, int) {
    const auto i = static_cast<int64_t>(index);
    float* const row = &factor[i * in];
    for (int64_t j = 0; j <= i; ++j) {
      const auto [a, b] = std::minmax(order_[in - 1 - i], order_[in - 1 - j]);
      row[j] = hessian[a * in + b];
    }
    row[i] = static_cast<float>(double{row[i]} + damping * mean + (row[i] == 0 ? mean : 0));
  });
  FactorInPlace(in, factor.data(), where);
  std::ranges::reverse(factor);  // L lower and backwards is R
  upper_ = Panels(Panels::Shape::kUpper, in, factor.data());
}

void GptqFactor::Round(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  CheckEqual("GPTQ", "inputs", m.in, in());
  ParallelForBlocks(m.out, kRowsTogether, [&](int64_t first, int64_t) {
    RowsInWork rows(first, ends, matrix);
    Fill(read, rows);
    RoundRows(rows);
    std::vector<float> codes(static_cast<size_t>(m.in));
    for (int64_t r = 0; r < rows.count; ++r) {
      for (int64_t i = 0; i < m.in; ++i) codes[i] = rows.codes[i * kRowsTogether + r];
      Pack<float>(m.format, codes, {matrix.Codes(rows.first + r), m.RowBytes()});
    }
  });
}

// Weights, and scales that are taken before the first rounding: the first group's are in any order.
void GptqFactor::Fill(const ReadRow& read, RowsInWork& rows) const {
  const QuantizedMatrix& m = rows.matrix.view();
  std::vector<float> stored(order_.size());
  for (int64_t r = 0; r < rows.count; ++r) {
    read(rows.first + r, stored.data());
    if (const auto bad = FirstNotFinite(stored))
      Fail("weights, row {}: got {} at {}, expected finite values", rows.first + r, stored[*bad], *bad);
    for (int64_t g = 0; g < (by_ == GptqOrder::kMoved ? 1 : m.Groups()); ++g)
      rows.SetScale(r, g, stored.data() + g * m.group);
    for (int64_t i = 0; i < in(); ++i) rows.errors[i * kRowsTogether + r] = stored[order_[i]];
  }
}

// Errors of kColumnsLater columns reach those behind them in one product.
void GptqFactor::RoundRows(RowsInWork& rows) const {
  const QuantizedMatrix& m = rows.matrix.view();
  const auto add = [&](Range columns, Range panels) {
    upper_.AddProducts(columns, panels, rows.errors.data(), rows.sums.data());
  };
  const auto scale_if_moved = [&](int64_t later, int64_t column) {
    if (by_ == GptqOrder::kMoved && column > 0 && column % m.group == 0) ScaleMoved(later, column, rows);
  };
  for (int64_t first = 0; first < m.in; first += kColumnsLater) {
    const int64_t end = std::min(first + kColumnsLater, m.in);
    for (int64_t panel = first; panel < end; panel += kPanel) {
      add({first, panel}, {panel / kPanel, panel / kPanel + 1});
      if (Info(m.format).together > 1) {
        scale_if_moved(first, panel);
        RoundPanel(panel, rows);
        continue;
      }
      for (int64_t column = panel; column < std::min(panel + kPanel, end); ++column) {
        scale_if_moved(first, column);
        RoundColumn(column, rows);
      }
    }
    add({first, end}, {first / kPanel + kColumnsLater / kPanel, upper_.count()});
  }
}

// Turns the sums [columns][kRowsTogether] into the moves of least error: moves R_columns,columns = sums.
void GptqFactor::Move(Range columns, float* sums) const {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    float* const moved = sums + (j - columns.begin) * kRowsTogether;
    for (int64_t k = columns.begin; k < j; ++k) {
      const float* const before = sums + (k - columns.begin) * kRowsTogether;
      for (int64_t r = 0; r < kRowsTogether; ++r) moved[r] -= before[r] * upper_.At(k, j);
    }
    for (int64_t r = 0; r < kRowsTogether; ++r) moved[r] /= upper_.At(j, j);
  }
}

// Scales the group that begins at a column by moved weights. Errors from `later` on reached only this panel's sums.
void GptqFactor::ScaleMoved(int64_t later, int64_t column, RowsInWork& rows) const {
  const QuantizedMatrix& m = rows.matrix.view();
  const int64_t g = column / m.group, n = m.GroupEnd(g) - column;
  const Range behind{column / kPanel + 1, (column + n + kPanel - 1) / kPanel};
  rows.moved.Reserve(rows.sums.size());
  float* const moved = rows.moved.data() + column * kRowsTogether;
  std::copy(rows.sums.data() + column * kRowsTogether, rows.sums.data() + behind.end * kPanel * kRowsTogether, moved);
  upper_.AddProducts({later, column}, behind, rows.errors.data(), rows.moved.data());
  Move({column, column + n}, moved);
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t j = 0; j < n; ++j)
      values[j] = rows.errors[(column + j) * kRowsTogether + r] + moved[j * kRowsTogether + r];
    rows.SetScale(r, g, values.data());
  }
}

// Rounds one column of all rows; its errors reach the columns behind it in its panel.
void GptqFactor::RoundColumn(int64_t column, RowsInWork& rows) const {
  const QuantizedMatrix& m = rows.matrix.view();
  const int64_t i = order_[column];
  const float diagonal = upper_.At(column, column);
  const GroupScale* const scales = &rows.scales[i / m.group * kRowsTogether];
  float* const codes = &rows.codes[i * kRowsTogether];
  float* const w = &rows.errors[column * kRowsTogether];
  const float* const sums = &rows.sums[column * kRowsTogether];
  for (int64_t r = 0; r < rows.count; ++r) {
    codes[r] = RoundedIn(w[r] + sums[r] / diagonal, scales[r], m.format);
    w[r] -= ValueOf(codes[r], scales[r]);
  }
  for (int64_t other = column + 1; other % kPanel != 0; ++other) {
    float* const behind = &rows.sums[other * kRowsTogether];
    for (int64_t r = 0; r < kRowsTogether; ++r) behind[r] += upper_.At(column, other) * w[r];
  }
}

// Rounds the columns of a panel, which share a code. Nothing in the panel is behind them.
void GptqFactor::RoundPanel(int64_t panel, RowsInWork& rows) const {
  static_assert(kPanel == kLatticeWidth);
  const int64_t i = order_[panel];
  TARE_CHECK(i % kPanel == 0 && order_[panel + kPanel - 1] == i + kPanel - 1);
  float moved[kPanel * kRowsTogether];
  std::copy_n(rows.sums.data() + panel * kRowsTogether, std::size(moved), moved);
  Move({panel, panel + kPanel}, moved);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Scale scale = rows.scales[i / rows.matrix.view().group * kRowsTogether + r].scale;
    float scaled[kPanel], point[kPanel];
    for (int64_t j = 0; j < kPanel; ++j)
      scaled[j] = (rows.errors[(panel + j) * kRowsTogether + r] + moved[j * kRowsTogether + r]) * scale.inv;
    NearestLatticePoint(scaled, point);
    for (int64_t j = 0; j < kPanel; ++j) {
      rows.codes[(i + j) * kRowsTogether + r] = point[j];
      rows.errors[(panel + j) * kRowsTogether + r] -= point[j] * scale.scale;
    }
  }
}

}  // namespace tare
