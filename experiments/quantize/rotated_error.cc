// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/rotated_error.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/sites_of_model.h"
#include "experiments/quantize/equivalent_weights.h"
#include "experiments/quantize/scaled_input.h"
#include "quant/algorithms/error_growth.h"
#include "quant/algorithms/output_error.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

// [rows, columns], and zeros up to a projector's number of rows.
struct Table {
  Table(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(PaddedRows(r) * c)) {
    std::fill_n(values.data() + r * c, (PaddedRows(r) - r) * c, 0.0f);
  }
  float* Row(int64_t r) { return values.data() + r * columns; }
  const float* Row(int64_t r) const { return values.data() + r * columns; }
  WeightMatrix view() const { return {values.data(), WeightType::kF32, rows, columns}; }
  std::span<const float> span() const { return values.span().first(static_cast<size_t>(rows * columns)); }

  int64_t rows, columns;
  AlignedBuffer<float> values;
};

// fill(row, its values), from several threads.
Table Filled(int64_t rows, int64_t columns, auto fill) {
  Table table(rows, columns);
  ParallelFor(static_cast<size_t>(rows), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    fill(row, table.Row(row));
  });
  return table;
}

Table Stored(const WeightMatrix& weight) {
  return Filled(weight.out, weight.in, [&](int64_t row, float* y) { RowAsFloat(weight, row, y); });
}

Table Transposed(const Table& a) {
  return Filled(a.columns, a.rows, [&](int64_t c, float* y) {
    for (int64_t r = 0; r < a.rows; ++r) y[r] = a.Row(r)[c];
  });
}

// Rows of a, each followed by that of b.
Table Beside(const Table& a, const Table& b) {
  return Filled(a.rows, a.columns + b.columns,
                [&](int64_t r, float* y) { std::copy_n(b.Row(r), b.columns, std::copy_n(a.Row(r), a.columns, y)); });
}

// a b^T
Table Product(Projector& projector, const Table& a, const WeightMatrix& b) {
  Table product(a.rows, b.out);
  const Projection projection{.weight = b, .y = product.values.data()};
  projector.Project(a.values.data(), a.rows, {&projection, 1});
  return product;
}

// Rows' sums, added in order, so that the threads do not show.
double Dot(const Table& a, const Table& b) {
  std::vector<double> of_rows(static_cast<size_t>(a.rows), 0.0);
  ParallelFor(of_rows.size(), [&](size_t r, int) {
    const float *x = a.Row(static_cast<int64_t>(r)), *y = b.Row(static_cast<int64_t>(r));
    for (int64_t i = 0; i < a.columns; ++i) of_rows[r] += double{x[i]} * double{y[i]};
  });
  double sum = 0;
  for (const double row : of_rows) sum += row;
  return sum;
}

// What rounding adds to w.
Table RoundingErrors(const Table& w, const QuantizedMatrix& codes, const std::string& where) {
  return Filled(w.rows, w.columns, [&](int64_t row, float* y) {
    DequantizeRow(codes, row, y, where);
    for (int64_t i = 0; i < w.columns; ++i) y[i] -= w.Row(row)[i];
  });
}

// d <lost, error> / dw through the scales (error_growth.h), which are of rows as they are rounded: rotated, if the
// codes are.
Table Growth(const Table& w, const Table& error, const Table& lost, const QuantizedMatrix& codes) {
  return Filled(w.rows, w.columns, [&](int64_t row, float* y) {
    const auto rounded = [&](const Table& table) {
      std::vector<float> values(table.Row(row), table.Row(row) + table.columns);
      if (codes.rotation != nullptr) codes.rotation->Rotate(values.data(), values.data());
      return values;
    };
    const std::vector<float> weights = rounded(w), errors = rounded(error), outputs = rounded(lost);
    std::fill_n(y, w.columns, 0.0f);
    for (int64_t g = 0; g < codes.Groups(); ++g) {
      const int64_t first = g * codes.group;
      const auto n = static_cast<size_t>(codes.GroupEnd(g) - first);
      AddErrorGrowth(codes.format, {weights.data() + first, n}, {errors.data() + first, n}, {outputs.data() + first, n},
                     {y + first, n});
    }
    if (codes.rotation != nullptr) codes.rotation->RotateBack(y, y);
  });
}

}  // namespace

void CheckRotatedError(const ModelConfig& config, const Plan& plan) {
  const Family& family = FamilyOf(config);
  RequireRotation(family, "cayley");
  const Hadamard start(config.hidden, 0);  // or is refused
  const bool rounds = std::ranges::any_of(family.linear, [&](const LinearPlace& place) {
    const LinearLayer linear{&place, 0, std::nullopt};
    return plan.Touches(place.weight) && (ReadsStream(linear) || WritesStream(linear));
  });
  if (!rounds)
    Fail(
        "cayley: got the plan '{}', expected one that rounds weights that read or write the residual stream; try "
        "weights=int4/group64",
        plan.canonical());
}

RotatedError::RotatedError(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                           const Progress& progress)
    : model_(model), plan_(plan, ModelSitesOf(model), Carrying::kSimulated), channels_(model.config().hidden) {
  CalibrationPass calibration(model, text);
  const int layers = model.config().layers;
  for (int layer = 0; layer < layers; ++layer) {
    ThrowIfStopped();
    for (const Site input : kCalibratedInputs) Collect(calibration, layer, input);
    if (layer + 1 < layers) calibration.Advance(layer);
    Report(progress, layer + 1, layers, "layers seen");
  }
}

void RotatedError::Collect(CalibrationPass& calibration, int layer, Site input) {
  std::vector<LinearLayer> rounded = LayersWithInput(input, model_.config(), layer);
  std::erase_if(rounded, [&](const LinearLayer& linear) {
    return plan_.RuleAt(linear.WeightKey()) == nullptr || (!ReadsStream(linear) && !WritesStream(linear));
  });
  if (rounded.empty()) return;
  if (!IsOfExperts(input)) {
    moments_.push_back(calibration.MomentsOf(layer, input));
    for (const LinearLayer& linear : rounded) Add(linear, moments_.size() - 1);
    return;
  }
  std::ranges::stable_sort(rounded, {}, &LinearLayer::expert);
  const int experts = model_.config().experts;
  const size_t before = moments_.size();
  for (int first = 0; first < experts;) {
    const int count = ExpertsAtOnce(model_.config(), input, first, 1);
    std::ranges::move(calibration.MomentsOfExperts(layer, input, first, count), std::back_inserter(moments_));
    first += count;
  }
  for (const LinearLayer& linear : rounded) Add(linear, before + static_cast<size_t>(*linear.expert));
}

void RotatedError::Add(const LinearLayer& linear, size_t moments) {
  const SecondMoments& m = moments_[moments];
  if (m.tokens == 0) return;
  if (const auto bad = FirstNotFinite(m.values))
    Fail("cayley, {}: the calibration's second moments hold NaN or infinity at {}; try another calibration text",
         linear.Tensor(model_.config()), *bad);
  const WeightMatrix& stored = WeightsOf(model_.layers()[static_cast<size_t>(linear.layer)], linear).weight;
  const Table w = Stored(stored);
  const double size = OutputError(w.span(), stored.in, m.values);
  if (!(size > 0)) return;
  matrices_.push_back(
      {linear.Tensor(model_.config()), &stored, plan_.RuleAt(linear.WeightKey()), ReadsStream(linear), moments, size});
}

double RotatedError::At(const std::vector<double>& q, std::vector<double>& gradient) {
  const int64_t n = channels_;
  const Table turn = Filled(n, n, [&](int64_t c, float* y) {  // Q^T
    for (int64_t r = 0; r < n; ++r) y[r] = static_cast<float>(q[static_cast<size_t>(r * n + c)]);
  });
  gradient.assign(static_cast<size_t>(n * n), 0.0);
  double loss = 0;
  Table turned_moments(0, 0);  // Q^T H Q, for all matrices that read the same
  std::optional<size_t> of;    // which
  for (const Rounded& matrix : matrices_) {
    ThrowIfStopped();
    const SecondMoments& m = moments_[matrix.moments];
    const WeightMatrix h{m.values.data(), WeightType::kF32, m.in, m.in};
    if (matrix.reads && of != matrix.moments) {
      turned_moments = Product(projector_, Product(projector_, turn, h), turn.view());
      of = matrix.moments;
    }
    const Table stored = Stored(*matrix.stored);
    const Table w =
        matrix.reads ? Product(projector_, stored, turn.view()) : Product(projector_, turn, Transposed(stored).view());
    const QuantizedMatrixBuffer codes = QuantizeByRule(w.view(), *matrix.rule, matrix.name);
    const Table error = RoundingErrors(w, codes.view(), matrix.name);
    const Table lost = Product(projector_, error, matrix.reads ? turned_moments.view() : h);
    loss += Dot(lost, error) / matrix.size;
    const Table growth = Growth(w, error, lost, codes.view());
    const Table by_turn = matrix.reads ? Product(projector_, Beside(Transposed(lost), Transposed(w)),
                                                 Beside(Transposed(error), Transposed(growth)).view())
                                       : Product(projector_, w, growth.view());
    ParallelFor(static_cast<size_t>(n), [&](size_t row, int) {
      const float* const from = by_turn.Row(static_cast<int64_t>(row));
      for (int64_t i = 0; i < n; ++i)
        gradient[row * static_cast<size_t>(n) + static_cast<size_t>(i)] += 2 * double{from[i]} / matrix.size;
    });
  }
  return loss;
}

}  // namespace tare
