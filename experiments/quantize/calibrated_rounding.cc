// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibrated_rounding.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

void NearestCodes(const ReadRow& read, const GroupEnds& ends, QuantizedMatrixBuffer& matrix) {
  ParallelFor(static_cast<size_t>(matrix.view().out), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(matrix.view().in));
    read(static_cast<int64_t>(row), values.data());
    RoundRowToNearest(values.data(), ends, matrix, static_cast<int64_t>(row));
  });
}

}  // namespace

CalibratedRounding::CalibratedRounding(const QuantizeMethod& method, SharedInput input) {
  const auto take = [](auto& to, auto& from) {
    if (from) to = std::move(from);
  };
  // Ranges last: they keep the moments, which the others need only while they factor them.
  for (const std::optional<Step>* step : {&method.codes, &method.better, &method.weights}) {
    if (!step->has_value() || !(*step)->on_input) continue;
    InputRounding own = (*step)->on_input(input);
    take(by_.aim, own.aim), take(by_.ends, own.ends), take(by_.round, own.round), take(by_.improve, own.improve);
  }
  if (!by_.round) by_.round = NearestCodes;
}

QuantizedMatrixBuffer CalibratedRounding::Round(const WeightMatrix& stored, Site weight, const Rule& rule,
                                                const std::string& where) const {
  AlignedBuffer<float> aimed;  // [out, in] what the codes should be near, where it is not W
  if (by_.aim) {
    aimed.Reset(static_cast<size_t>(stored.out * stored.in));
    ParallelFor(static_cast<size_t>(stored.out), [&](size_t row, int) {
      RowAsFloat(stored, static_cast<int64_t>(row), aimed.data() + static_cast<int64_t>(row) * stored.in);
    });
    by_.aim(stored.out, aimed.data());
  }
  const ReadRow read = RowsToRound(rule, stored.in, [&](int64_t row, float* y) {
    if (by_.aim) {
      std::copy_n(aimed.data() + row * stored.in, stored.in, y);
    } else {
      RowAsFloat(stored, row, y);
    }
  });
  try {
    QuantizedMatrixBuffer matrix = MatrixFor(rule, stored.out, stored.in, read);
    by_.round(read, EndsFor(weight, rule, read, matrix.view()), matrix);
    if (by_.improve) by_.improve(read, matrix);
    return matrix;
  } catch (const Error& error) {
    Fail("{}: {}", where, error.what());
  }
}

// A step's, unless the rule chooses by itself.
GroupEnds CalibratedRounding::EndsFor(Site weight, const Rule& rule, const ReadRow& read,
                                      const QuantizedMatrix& matrix) const {
  if (by_.ends && !rule.options.mse) {
    if (GroupEnds ends = by_.ends(weight, read, matrix)) return ends;
  }
  return EndsBy(rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, matrix.format);
}

}  // namespace tare
