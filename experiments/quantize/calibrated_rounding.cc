// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibrated_rounding.h"

#include <algorithm>

#include "experiments/model/planned_linear.h"
#include "experiments/model/weights.h"
#include "quant/base/aligned.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Rounding = QuantizeMethod::Rounding;
constexpr int kSweeps = 6;

}  // namespace

CalibratedRounding::CalibratedRounding(QuantizeMethod method, const SecondMoments& m, const std::string& where)
    : method_(method) {
  if (method.rounding != Rounding::kNearest) gptq_.emplace(m.values, m.in, kGptqDamping, where);
  if (method.rounding == Rounding::kGptaq) target_.emplace(m.values, m.cross, m.in, kGptqDamping, where);
  if (method.quantease) quantease_.emplace(m.values, m.in, kGptqDamping, where);
}

QuantizedMatrixBuffer CalibratedRounding::Round(const WeightMatrix& stored, const Rule& rule,
                                                const std::string& where) const {
  AlignedBuffer<float> corrected;
  if (target_) {
    corrected.Reset(static_cast<size_t>(stored.out * stored.in));
    ParallelFor(static_cast<size_t>(stored.out), [&](size_t row, int) {
      RowAsFloat(stored, static_cast<int64_t>(row), corrected.data() + static_cast<int64_t>(row) * stored.in);
    });
    target_->Correct(stored.out, corrected.data());
  }
  const auto read = [&](int64_t row, float* y) {
    if (target_) {
      std::copy_n(corrected.data() + row * stored.in, stored.in, y);
    } else {
      RowAsFloat(stored, row, y);
    }
  };
  QuantizedMatrixBuffer matrix;
  if (gptq_) {
    matrix = MatrixFor(rule, stored.out, stored.in, read);
    gptq_->Round(read, rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, matrix);
  } else {
    matrix = QuantizeByRule(stored, rule, where);
  }
  if (quantease_) quantease_->Improve(read, kSweeps, matrix);
  return matrix;
}

}  // namespace tare
