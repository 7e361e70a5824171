// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/sign_round.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "quant/algorithms/learned_rows.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/base/widest_vectors.h"
#include "quant/format/quantize.h"

namespace tare {
namespace {

// The sum of error H error^T of each lane, and the lanes where it is less than the least so far.
LearnedRows::Lanes Better(const LearnedRows& rows, int64_t in, std::array<double, kRowsTogether>& least) {
  std::array<double, kRowsTogether> loss{};
  InWidestVectors([&]() TARE_INTO_CALLER {
    for (int64_t i = 0; i < in; ++i) {
      const float* const product = rows.gradient() + i * kRowsTogether;
      const float* const error = rows.errors() + i * kRowsTogether;
      for (int64_t r = 0; r < kRowsTogether; ++r) loss[r] += double{product[r]} * double{error[r]};
    }
  });
  LearnedRows::Lanes better{};
  for (int64_t r = 0; r < kRowsTogether; ++r) {
    if (!(loss[r] < least[r])) continue;
    least[r] = loss[r];
    better[r] = 1;
  }
  return better;
}

// Both triangles, or refused.
Panels Whole(std::vector<float> hessian, int64_t in, const std::string& where) {
  TARE_CHECK(std::ssize(hessian) == in * in);
  for (int64_t i = 0; i < in; ++i) {
    if (FirstNotFinite(std::span(hessian).subspan(static_cast<size_t>(i * in + i), static_cast<size_t>(in - i))))
      Fail("{}: the calibration's second moments hold NaN or infinity; try another calibration text", where);
    for (int64_t j = 0; j < i; ++j) hessian[i * in + j] = hessian[j * in + i];
  }
  return {Panels::Shape::kFull, in, hessian.data()};
}

}  // namespace

SignRound::SignRound(const std::vector<float>& hessian, int64_t in, const std::string& where)
    : in_(in), hessian_(Whole(hessian, in, where)) {}

void SignRound::Round(const ReadRow& read, const GroupEnds& ends, int steps, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  TARE_CHECK(m.in == in_ && IsInteger(m.format) && steps > 0);
  ParallelForBlocks(m.out, kRowsTogether, [&](int64_t first, int64_t) {
    LearnedRows rows(m, first, read, ends);
    std::array<double, kRowsTogether> least;
    least.fill(HUGE_VAL);
    const auto n = static_cast<float>(steps);
    for (int step = 0; step <= steps; ++step) {
      rows.Round();
      std::fill_n(rows.gradient(), Panels::ValuesFor(in_), 0.0f);
      hessian_.AddProducts({0, in_}, {0, hessian_.count()}, rows.errors(), rows.gradient());
      if (const LearnedRows::Lanes better = Better(rows, in_, least); std::ranges::count(better, 1.0f) > 0)
        rows.Keep(better);
      if (step < steps) rows.Step((1.0f - static_cast<float>(step) / n) / n);
    }
    rows.Write(matrix);
  });
}

}  // namespace tare
