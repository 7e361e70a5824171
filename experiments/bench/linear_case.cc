// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/linear_case.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/rule_checks.h"
#include "kernels/elementwise/rows.h"
#include "kernels/linear/linear_reference.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

std::vector<float> RandomNormal(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace

PreparedLinear::PreparedLinear(const LinearCase& c)
    : case_(c),
      x_(RandomNormal(static_cast<size_t>(c.rows * c.in), c.seed)),
      y_(static_cast<size_t>(c.rows * c.out)),
      dense_(RandomNormal(static_cast<size_t>(c.out * c.in), c.seed + 1)) {
  const SiteKey key{Site::kQProjW, 0};
  const ModelSites layer{
      .family = "bench", .layers = 1, .maps = 1, .tied_head = false, .heads = {}, .weights = {{key, {.in = c.in}}}};
  const ResolvedPlan plan(Plan::Parse(c.plan), layer, Carrying::kExecuted);
  const Rule* weight = plan.RuleAt(key);
  const Rule* input = plan.RuleAt({Site::kQProjIn, 0});
  if (weight == nullptr) Fail("bench linear, plan '{}': quantizes no weights; try weights=int8/channel", c.plan);
  if (input == nullptr && c.rows != 1)
    RefuseRule(*weight, Formatted("{} rows of inputs in f32", c.rows), "one", "linear_in=int8/token beside it");
  if (input != nullptr) activation_ = input->format;
  quantized_ = QuantizedMatrixBuffer(weight->format, c.out, c.in, GroupOf(weight->granularity, c.in));
  ParallelFor(static_cast<size_t>(c.out), [&](size_t row, int) {
    RoundRowToNearest(dense_.data() + row * c.in, ClipChoice::kAbsmax, quantized_, static_cast<int64_t>(row));
  });
  weights_.emplace_back(quantized_.view());
  const size_t copies = OneTokenSteps() ? kCycledBytes / weights_.front().Bytes() + 1 : 1;
  while (weights_.size() < copies) weights_.emplace_back(quantized_.view());
}

void PreparedLinear::RunOnce() {
  const PackedMatrix& weight = weights_[next_];
  next_ = (next_ + 1) % weights_.size();
  if (OneTokenSteps()) {
    if (!token_) token_.emplace(case_.in, OneToken::BlockOf(weight));
    token_->Load(x_.data());
    token_->Project(weight, nullptr, y_.data());
  } else {
    const QuantizedProjection projection{&weight, nullptr, y_.data()};
    linear_.Project(x_.data(), case_.rows, {*activation_, {}}, {&projection, 1});
  }
}

// f32 rounds each group's sum a few times; a one-token step also moves x by half a 32512th of its block's largest.
void PreparedLinear::CheckRow(int64_t row) {
  const float* x = x_.data() + row * case_.in;
  const QuantizedMatrix& w = quantized_.view();
  std::vector<double> expected;
  if (!OneTokenSteps()) expected = ReferenceLinear(x, 1, *activation_, w, nullptr).y;
  std::vector<float> weights(static_cast<size_t>(case_.in));
  const float largest = AbsMax(x, case_.in);
  for (int64_t n = 0; n < case_.out; ++n) {
    DequantizeRow(w, n, weights.data());
    double dense = 0, dequantized = 0, size = 0, sum = 0;
    for (int64_t i = 0; i < case_.in; ++i) {
      dense += double{x[i]} * dense_[n * case_.in + i];
      dequantized += double{x[i]} * weights[i];
      size += std::abs(double{x[i]} * weights[i]);
      sum += std::abs(double{weights[i]});
    }
    const double y = y_[row * case_.out + n];
    const double right = OneTokenSteps() ? dequantized : expected[n];
    // Codes' magnitudes are within one of x's: sum covers that.
    const double bound = static_cast<double>(w.Groups() + case_.in / 16 + 8) * 0x1p-24 * (size + sum * largest) +
                         (OneTokenSteps() ? sum * largest / OneToken::kLargestCode : 0);
    if (!(std::abs(y - right) <= bound)) {
      Fail("bench linear, plan '{}': row {}, output {}: got {}, expected the reference's {}; nothing was timed",
           case_.plan, row, n, y, right);
    }
    error_ += (y - dense) * (y - dense);
    size_ += dense * dense;
  }
}

void PreparedLinear::Verify() {
  RunOnce();
  constexpr int64_t kRowsLooked = 4;
  for (int64_t i = 0; i < std::min(kRowsLooked, case_.rows); ++i) CheckRow(i * case_.rows / kRowsLooked);
  rel_l2_ = std::sqrt(error_ / size_);
}

}  // namespace tare
