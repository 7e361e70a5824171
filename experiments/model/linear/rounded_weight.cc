// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/rounded_weight.h"

#include <utility>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

// Of the whole matrix. The mean over rows of equal length is the mean of their means.
Ends EndsOfMatrix(int64_t out, int64_t in, const ReadRow& read, Format format) {
  std::vector<Ends> of_rows(static_cast<size_t>(out));
  ParallelFor(of_rows.size(), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(in));
    read(static_cast<int64_t>(row), values.data());
    of_rows[row] = EndsOf(values, format);
  });
  return EndsOfAll(of_rows, format);
}

}  // namespace

QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read) {
  const float absmax = IsTwoLevel(rule.format.scale) ? EndsOfMatrix(out, in, read, rule.format).high : 0.0f;
  return {rule.format, out, in, GroupOf(rule.granularity, in), absmax, rule.options.Rotation(in)};
}

ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read) {
  const Hadamard* const rotation = rule.options.Rotation(in);
  if (rotation == nullptr) return read;
  return [rotation, read = std::move(read)](int64_t row, float* values) {
    read(row, values);
    rotation->Rotate(values, values);
  };
}

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where) {
  const ReadRow read =
      RowsToRound(rule, weight.in, [&](int64_t row, float* values) { RowAsFloat(weight, row, values); });
  QuantizedMatrixBuffer matrix = MatrixFor(rule, weight.out, weight.in, read);
  const bool one_scale = rule.granularity.kind == Granularity::Kind::kTensor;
  const Ends ends = one_scale ? EndsOfMatrix(weight.out, weight.in, read, rule.format) : Ends{};
  const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
  ParallelFor(static_cast<size_t>(weight.out), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(weight.in));
    read(row, values.data());
    try {
      if (one_scale) {
        RoundRowWithEnds(values.data(), ends, matrix, row);
      } else {
        RoundRowToNearest(values.data(), choice, matrix, row);
      }
    } catch (const Error& error) {
      Fail("{}: {}; try saving the checkpoint again", where, error.what());
    }
  });
  return matrix;
}

}  // namespace tare
