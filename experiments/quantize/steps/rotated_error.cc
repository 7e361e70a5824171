// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/steps/rotated_error.h"

#include <algorithm>
#include <span>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/plan_run.h"
#include "quant/algorithms/channel_transforms.h"
#include "quant/algorithms/second_moments.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr size_t kStream = 0;  // the stream's place among rotations; the rotations of layers' values follow

// [rows, columns], and zeros up to a projector's number of rows.
struct Table {
  Table(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(PaddedRows(r) * c)) {
    std::fill_n(values.data() + r * c, (PaddedRows(r) - r) * c, 0.0f);
  }
  float* Row(int64_t r) { return values.data() + r * columns; }
  const float* Row(int64_t r) const { return values.data() + r * columns; }
  DenseMatrix view() const { return {values.data(), WeightType::kF32, rows, columns}; }
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

// The table's values in rows of `columns`.
Table InRowsOf(int64_t columns, const Table& a) {
  return Filled(a.rows * a.columns / columns, columns,
                [&](int64_t row, float* y) { std::copy_n(a.values.data() + row * columns, columns, y); });
}

// InRowsOf(columns, a), transposed.
Table ColumnsOf(int64_t columns, const Table& a) {
  return Filled(columns, a.rows * a.columns / columns, [&](int64_t c, float* y) {
    for (int64_t i = c; i < a.rows * a.columns; i += columns) *y++ = a.values[static_cast<size_t>(i)];
  });
}

// a's columns as rows, with a's rows in this order (none: as they are).
Table Outputs(const Table& a, std::span<const int64_t> order) {
  return Filled(a.columns, a.rows, [&](int64_t c, float* y) {
    for (int64_t r = 0; r < a.rows; ++r) y[r] = a.Row(order.empty() ? r : order[static_cast<size_t>(r)])[c];
  });
}

Table FromOutputs(const Table& outputs, std::span<const int64_t> order) {
  Table a(outputs.columns, outputs.rows);
  ParallelFor(static_cast<size_t>(a.rows), [&](size_t i, int) {
    float* const y = a.Row(order.empty() ? static_cast<int64_t>(i) : order[i]);
    for (int64_t c = 0; c < a.columns; ++c) y[c] = outputs.Row(c)[i];
  });
  return a;
}

// The rows of a, each followed by the same row of b.
Table Beside(const Table& a, const Table& b) {
  return Filled(a.rows, a.columns + b.columns,
                [&](int64_t r, float* y) { std::copy_n(b.Row(r), b.columns, std::copy_n(a.Row(r), a.columns, y)); });
}

// a b^T
Table Product(Projector& projector, const Table& a, const DenseMatrix& b) {
  Table product(a.rows, b.out);
  const Projection projection{.weight = b, .y = product.values.data()};
  projector.Project(a.values.data(), a.rows, {&projection, 1});
  return product;
}

// Each run of a row's neighbours times Q: turn is Q^T.
Table Turned(Projector& projector, const Table& a, const Table& turn) {
  return InRowsOf(a.columns, Product(projector, InRowsOf(turn.rows, a), turn.view()));
}

void AddTo(std::vector<double>& sums, const Table& a, double by) {
  ParallelFor(static_cast<size_t>(a.rows), [&](size_t row, int) {
    const float* const from = a.Row(static_cast<int64_t>(row));
    double* const to = sums.data() + row * static_cast<size_t>(a.columns);
    for (int64_t i = 0; i < a.columns; ++i) to[i] += by * double{from[i]};
  });
}

// Rows' sums, added in order, so that the threads do not show.
double Dot(const Table& a, const Table& b) {
  std::vector<double> of_rows(static_cast<size_t>(a.rows), 0.0);
  ParallelFor(of_rows.size(), [&](size_t r, int) {
    const float *x = a.Row(static_cast<int64_t>(r)), *y = b.Row(static_cast<int64_t>(r));
    for (int64_t i = 0; i < a.columns; ++i) of_rows[r] += double{x[i]} * double{y[i]};
  });
  return std::ranges::fold_left(of_rows, 0.0, std::plus());
}

// The errors that rounding adds to w.
Table RoundingErrors(const Table& w, const QuantizedMatrix& codes, const std::string& where) {
  return Filled(w.rows, w.columns, [&](int64_t row, float* y) {
    DequantizeRow(codes, row, y, where);
    for (int64_t i = 0; i < w.columns; ++i) y[i] -= w.Row(row)[i];
  });
}

// d <lost, error> / dw through the scales (AddErrorGrowth) of rows as rounded: rotated, if the codes are.
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
  if (family.centres)
    Fail("cayley: got {} model, expected one whose norms subtract no mean; try hadamard", WithArticle(family.name));
  const Hadamard stream(config.hidden, 0);  // or is refused
  if (const int64_t size = RotatedValues(config).size; size > 0) Hadamard(size, 0);
  const bool rounds = std::ranges::any_of(family.linear, [&](const LinearPlace& place) {
    const LinearLayer linear{&place, 0, std::nullopt};
    return plan.Touches(place.weight) && (ReadsStream(linear) || WritesStream(linear));
  });
  if (!rounds)
    Fail(
        "cayley: got the plan '{}', expected one that rounds weights that read or write the residual stream; try "
        "weights=int4/channel",
        plan.canonical());
}

RotatedError::RotatedError(Model& model, const std::vector<ScoredSequence>& text, const Plan& plan,
                           const Progress& progress, std::pmr::memory_resource& kept)
    : model_(model),
      plan_(plan, ModelSitesOf(model), Carrying::kSimulated),
      values_(RotatedValues(model.config())),
      sizes_{model.config().hidden} {
  CalibrationPass calibration(model, text, kept);
  const int layers = model.config().layers;
  if (values_.size > 0) sizes_.insert(sizes_.end(), static_cast<size_t>(layers), values_.size);
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
  std::ranges::stable_sort(rounded, {}, &LinearLayer::expert);
  const size_t before = moments_.size();
  InputMoments moments(calibration, layer, input);
  if (!IsOfExperts(input)) moments_.push_back(std::move(moments.Of({})));
  for (int expert = 0; IsOfExperts(input) && expert < model_.config().experts; ++expert)
    moments_.push_back(std::move(moments.Of(expert)));
  for (const LinearLayer& linear : rounded) Add(linear, before + static_cast<size_t>(linear.expert.value_or(0)));
}

void RotatedError::Add(const LinearLayer& linear, size_t moments) {
  const SecondMoments& m = moments_[moments];
  if (m.tokens == 0) return;
  if (const auto bad = FirstNotFinite(m.values))
    Fail("cayley, {}: the calibration's second moments hold NaN or infinity at {}; try another calibration text",
         linear.Tensor(model_.config()), *bad);
  const WeightMatrix& stored = WeightsOf(model_.layers()[static_cast<size_t>(linear.layer)], linear).stored();
  const Table w = Stored(stored);
  const double size = OutputError(w.span(), stored.in, m.values);
  if (!(size > 0)) return;
  Rounded matrix{.name = linear.Tensor(model_.config()),
                 .stored = &stored,
                 .rule = plan_.RuleAt(linear.WeightKey()),
                 .moments = moments,
                 .size = size};
  if (ReadsStream(linear)) matrix.in = kStream;
  if (WritesStream(linear)) matrix.out = kStream;
  if (values_.size > 0) {
    const size_t of_layer = kStream + 1 + static_cast<size_t>(linear.layer);
    if (linear.place->weight == Site::kVProjW) matrix.out = of_layer;
    if (linear.place->weight == Site::kOProjW) matrix.in = of_layer;
  }
  matrices_.push_back(std::move(matrix));
}

double RotatedError::At(const std::vector<std::vector<double>>& rotations,
                        std::vector<std::vector<double>>& gradients) {
  std::vector<Table> turns;  // Q^T
  gradients.resize(sizes_.size());
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const int64_t n = sizes_[i];
    gradients[i].assign(static_cast<size_t>(n * n), 0.0);
    turns.push_back(Filled(n, n, [&](int64_t c, float* y) {
      for (int64_t r = 0; r < n; ++r) y[r] = static_cast<float>(rotations[i][static_cast<size_t>(r * n + c)]);
    }));
  }
  double loss = 0;
  Table turned_moments(0, 0);  // T^T H T, for all matrices that read the same
  std::optional<size_t> of;    // which
  for (const Rounded& matrix : matrices_) {
    ThrowIfStopped();
    const SecondMoments& m = moments_[matrix.moments];
    const DenseMatrix h{m.values.data(), WeightType::kF32, m.in, m.in};
    const bool of_values = matrix.out.has_value() && matrix.out != kStream;
    const std::span<const int64_t> order = of_values ? values_.order : std::span<const int64_t>();
    Table w = Stored(*matrix.stored);
    if (matrix.in) {
      const Table& turn = turns[*matrix.in];
      w = Turned(projector_, w, turn);
      if (of != matrix.moments) {  // H is symmetric: (H T)^T = T^T H
        const Table one_side = Turned(projector_, Stored(h), turn);
        turned_moments = Turned(projector_, ColumnsOf(m.in, one_side), turn);
        of = matrix.moments;
      }
    }
    if (matrix.out) w = FromOutputs(Turned(projector_, Outputs(w, order), turns[*matrix.out]), order);
    const QuantizedMatrixBuffer codes = QuantizeByRule(w.view(), *matrix.rule, matrix.name);
    const Table error = RoundingErrors(w, codes.view(), matrix.name);
    const Table lost = Product(projector_, error, matrix.in ? turned_moments.view() : h);
    loss += Dot(lost, error) / matrix.size;
    const Table growth = Growth(w, error, lost, codes.view());
    if (matrix.in) {
      const int64_t n = sizes_[*matrix.in];
      AddTo(gradients[*matrix.in],
            Product(projector_, Beside(ColumnsOf(n, lost), ColumnsOf(n, w)),
                    Beside(ColumnsOf(n, error), ColumnsOf(n, growth)).view()),
            2 / matrix.size);
    }
    if (matrix.out) {
      const int64_t n = sizes_[*matrix.out];
      AddTo(gradients[*matrix.out],
            Product(projector_, ColumnsOf(n, Outputs(w, order)), ColumnsOf(n, Outputs(growth, order)).view()),
            2 / matrix.size);
    }
  }
  return loss;
}

}  // namespace tare
