// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibrated_rounding.h"

#include <algorithm>

#include "quant/algorithms/awq.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

constexpr int kSweeps = 6;  // of quantease

// R^T H R, of the inputs x R. [n, n], exactly symmetric, as H is.
std::vector<float> RotatedMoments(const std::vector<float>& moments, const Hadamard& rotation) {
  const int64_t n = rotation.size();
  std::vector<float> half(moments.size()), rotated(moments.size());
  ParallelFor(static_cast<size_t>(n), [&](size_t r, int) { rotation.Rotate(&moments[r * n], &half[r * n]); });
  ParallelFor(static_cast<size_t>(n), [&](size_t c, int) {
    const auto column = static_cast<int64_t>(c);
    float* const row = &rotated[column * n];
    for (int64_t i = 0; i < n; ++i) row[i] = half[i * n + column];
    rotation.Rotate(row, row);
  });
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) rotated[i * n + j] = rotated[j * n + i];
  }
  return rotated;
}

void NearestCodes(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
  ParallelFor(static_cast<size_t>(matrix.view().out), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(matrix.view().in));
    read(static_cast<int64_t>(row), values.data());
    RoundRowToNearest(values.data(), ends, matrix, static_cast<int64_t>(row));
  });
}

}  // namespace

CalibratedRounding::CalibratedRounding(const QuantizeMethod& method, const SecondMoments& m, int64_t together,
                                       const Hadamard* rotation, const std::string& where)
    : learning_steps_(method.learning_steps) {
  using Rounding = QuantizeMethod::Rounding;
  if (method.rounding == Rounding::kGptaq) target_.emplace(m.values, m.cross, m.in, method.damping, where);
  std::vector<float> rotated;
  if (rotation != nullptr) rotated = RotatedMoments(m.values, *rotation);
  const std::vector<float>& values = rotation != nullptr ? rotated : m.values;
  if (method.rounding == Rounding::kSignRound) learned_.emplace(values, m.in, where);
  if (method.rounding == Rounding::kGptq || method.rounding == Rounding::kGptaq)
    gptq_.emplace(values, m.in, method.damping, where, together, method.order);
  if (method.quantease) quantease_.emplace(values, m.in, kGptqDamping, where);
  if (method.Clips()) moments_ = values;
}

QuantizedMatrixBuffer CalibratedRounding::Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                                                const std::string& where) const {
  AlignedBuffer<float> corrected;
  if (target_) {
    corrected.Reset(static_cast<size_t>(stored.out * stored.in));
    ParallelFor(static_cast<size_t>(stored.out), [&](size_t row, int) {
      RowAsFloat(stored, static_cast<int64_t>(row), corrected.data() + static_cast<int64_t>(row) * stored.in);
    });
    target_->Correct(stored.out, corrected.data());
  }
  const ReadRow read = RowsToRound(rule, stored.in, [&](int64_t row, float* y) {
    if (target_) {
      std::copy_n(corrected.data() + row * stored.in, stored.in, y);
    } else {
      RowAsFloat(stored, row, y);
    }
  });
  try {
    return RoundRows(read, stored, weight, rule);
  } catch (const Error& error) {
    Fail("{}: {}", where, error.what());
  }
}

QuantizedMatrixBuffer CalibratedRounding::RoundRows(const ReadRow& read, const WeightMatrix& stored, Site weight,
                                                    const Rule& rule) const {
  QuantizedMatrixBuffer matrix = MatrixFor(rule, stored.out, stored.in, read);
  const GroupEnds ends = EndsFor(weight, rule, read, matrix.view());
  if (gptq_) {
    gptq_->Round(read, ends, matrix);
  } else if (learned_) {
    learned_->Round(read, ends, learning_steps_, matrix);
  } else {
    NearestCodes(read, ends, matrix);
  }
  if (quantease_) quantease_->Improve(read, kSweeps, matrix);
  return matrix;
}

// AWQ's, where the method has them and the rule does not choose by itself. Its authors leave q and k unclipped: what an
// error does there shows only in the product of both.
GroupEnds CalibratedRounding::EndsFor(Site weight, const Rule& rule, const ReadRow& read,
                                      const QuantizedMatrix& matrix) const {
  if (moments_.empty() || rule.options.mse || weight == Site::kQProjW || weight == Site::kKProjW) {
    return EndsBy(rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, matrix.format);
  }
  return [groups = matrix.Groups(), ends = AwqEnds(read, matrix, moments_)](int64_t row, int64_t g, const float*,
                                                                            int64_t) { return ends[row * groups + g]; };
}

}  // namespace tare
