// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/sign_round.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <Eigen/Core>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int64_t kRowsLearned = 64;     // together, so that H, which fits no cache, is read once for all of them
constexpr float kSmallestRange = 1e-3f;  // of alpha and beta, whose bound of 0 is open

// What is learned of a group, and its fixed parts.
struct LearnedGroup {
  Ends widest;       // for alpha and beta of 1
  float centre = 0;  // that the ends shrink to
  float alpha = 1, beta = 1;

  Ends Now() const { return {centre + alpha * (widest.low - centre), centre + beta * (widest.high - centre)}; }
};

// d L / d of a group's scale, and of its lower end where that is not by way of the scale.
struct GroupGradient {
  double scale = 0, low = 0;
};

float Sign(double x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

// Rows in progress.
class LearnedRows {
 public:
  LearnedRows(const QuantizedMatrix& m, int64_t first, int64_t count, const ReadRow& read, const GroupEnds& ends)
      : m_(m),
        first_(first),
        w_(count, m.in),
        v_(Floats::Zero(count, m.in)),
        codes_(count, m.in),
        error_(count, m.in),
        best_codes_(count, m.in),
        best_(static_cast<size_t>(count), HUGE_VAL) {
    for (int64_t r = 0; r < count; ++r) {
      read(first + r, w_.row(r).data());
      if (const auto bad = FirstNotFinite({w_.row(r).data(), static_cast<size_t>(m.in)}))
        Fail("weights, row {}: got {} at {}, expected finite values", first + r, w_(r, *bad), *bad);
      for (int64_t g = 0; g < m.Groups(); ++g) {
        LearnedGroup& group = groups_.emplace_back();
        group.widest = ends(first + r, g, w_.row(r).data() + g * m.group, m.GroupEnd(g) - g * m.group);
        if (Info(m.format).range == CodeRange::kMin) group.centre = (group.widest.low + group.widest.high) / 2;
      }
    }
    best_groups_ = groups_;
    scales_.resize(groups_.size());
    clamped_.resize(static_cast<size_t>(w_.size()));
  }

  // Codes and errors of what is learned so far.
  void RoundAll() {
    for (int64_t r = 0; r < w_.rows(); ++r) {
      for (int64_t g = 0; g < m_.Groups(); ++g) {
        const int64_t at = r * m_.Groups() + g;
        const GroupScale scale = scales_[at] = GroupScaleFor(groups_[at].Now(), m_.format, 0);
        for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) {
          const float code = std::nearbyint(Steps(r, i, scale) + v_(r, i)) + scale.zero;
          codes_(r, i) = std::clamp(code, least_, most_);
          clamped_[r * m_.in + i] = code != codes_(r, i);
          error_(r, i) = ValueOf(codes_(r, i), scale) - w_(r, i);
        }
      }
    }
  }

  // Keeps each row's best. product: the errors times H.
  void KeepBest(const Floats& product) {
    for (int64_t r = 0; r < w_.rows(); ++r) {
      double loss = 0;
      for (int64_t i = 0; i < m_.in; ++i) loss += double{product(r, i)} * double{error_(r, i)};
      if (!(loss < best_[r])) continue;
      best_[r] = loss;
      best_codes_.row(r) = codes_.row(r);
      std::copy_n(groups_.begin() + r * m_.Groups(), m_.Groups(), best_groups_.begin() + r * m_.Groups());
    }
  }

  // One step against the signs of the gradient.
  void Step(const Floats& product, float rate) {
    for (int64_t r = 0; r < w_.rows(); ++r) {
      for (int64_t g = 0; g < m_.Groups(); ++g) {
        const int64_t at = r * m_.Groups() + g;
        if (scales_[at].scale.scale == 0) continue;
        StepRange(GradientOf(product, r, g), rate, groups_[at]);
        for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) {
          if (!clamped_[r * m_.in + i]) v_(r, i) = std::clamp(v_(r, i) - rate * Sign(product(r, i)), -0.5f, 0.5f);
        }
      }
    }
  }

  void Write(QuantizedMatrixBuffer& matrix) const {
    for (int64_t r = 0; r < w_.rows(); ++r) {
      for (int64_t g = 0; g < m_.Groups(); ++g) matrix.SetScale(first_ + r, g, best_groups_[r * m_.Groups() + g].Now());
      Pack<float>(m_.format, {best_codes_.row(r).data(), static_cast<size_t>(m_.in)},
                  {matrix.Codes(first_ + r), m_.RowBytes()});
    }
  }

  const Floats& errors() const { return error_; }

 private:
  // w in steps of the scale, from the zero point or the minimum.
  float Steps(int64_t r, int64_t i, const GroupScale& scale) const {
    return (w_(r, i) - scale.origin) * scale.scale.inv;
  }

  // value = (code - zero) scale + origin. Inside, code - zero = w's steps + v; a clamped code is constant, and its
  // value moves with the scale and, where there is a zero point (-low / scale) or a minimum (low), with the lower end.
  GroupGradient GradientOf(const Floats& product, int64_t r, int64_t g) const {
    const int64_t at = r * m_.Groups() + g;
    const GroupScale& scale = scales_[at];
    GroupGradient gradient;
    const bool has_zero = Info(m_.format).range == CodeRange::kZero, offset = HasOffset(m_.format);
    const double low = has_zero ? double{std::min(groups_[at].Now().low, 0.0f)} : 0.0;
    for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) {
      const double of_value = product(r, i), steps = double{codes_(r, i)} - double{scale.zero};
      if (!clamped_[r * m_.in + i]) {
        gradient.scale += of_value * (steps - double{Steps(r, i, scale)});
      } else {
        gradient.scale += of_value * (steps - low * double{scale.scale.inv});
        if (offset) gradient.low += of_value;
      }
    }
    return gradient;
  }

  // scale = (high - low) / qmax; without an offset high / qmax, and low follows.
  void StepRange(const GroupGradient& gradient, float rate, LearnedGroup& group) const {
    const double qmax = Info(m_.format).Largest();
    const double of_high = gradient.scale / qmax * double{group.widest.high - group.centre};
    const double of_low = (gradient.low - gradient.scale / qmax) * double{group.widest.low - group.centre};
    group.beta = std::clamp(group.beta - rate * Sign(of_high), kSmallestRange, 1.0f);
    group.alpha =
        HasOffset(m_.format) ? std::clamp(group.alpha - rate * Sign(of_low), kSmallestRange, 1.0f) : group.beta;
  }

  const QuantizedMatrix& m_;
  int64_t first_;
  float least_ = static_cast<float>(Info(m_.format).min_code), most_ = static_cast<float>(Info(m_.format).max_code);
  Floats w_, v_, codes_, error_;                    // [rows, in]
  std::vector<char> clamped_;                       // [rows, in]
  std::vector<LearnedGroup> groups_, best_groups_;  // [rows][groups]
  std::vector<GroupScale> scales_;                  // of groups_ as they were rounded
  Floats best_codes_;
  std::vector<double> best_;  // loss, by row
};

}  // namespace

SignRound::SignRound(const std::vector<float>& hessian, int64_t in, const std::string& where)
    : in_(in), hessian_(hessian) {
  TARE_CHECK(std::ssize(hessian) == in * in);
  for (int64_t i = 0; i < in; ++i) {
    if (FirstNotFinite(std::span(hessian).subspan(static_cast<size_t>(i * in + i), static_cast<size_t>(in - i))))
      Fail("{}: the calibration's second moments hold NaN or infinity; try another calibration text", where);
    for (int64_t j = 0; j < i; ++j) hessian_[i * in + j] = hessian_[j * in + i];
  }
}

void SignRound::Round(const ReadRow& read, const GroupEnds& ends, int steps, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  TARE_CHECK(m.in == in_ && IsInteger(m.format) && steps > 0);
  const Eigen::Map<const Floats> h(hessian_.data(), in_, in_);
  ParallelFor(static_cast<size_t>((m.out + kRowsLearned - 1) / kRowsLearned), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kRowsLearned;
    LearnedRows rows(m, first, std::min(kRowsLearned, m.out - first), read, ends);
    Floats product;
    for (int step = 0; step <= steps; ++step) {
      rows.RoundAll();
      product.noalias() = rows.errors() * h;
      rows.KeepBest(product);
      const auto n = static_cast<float>(steps);
      if (step < steps) rows.Step(product, (1.0f - static_cast<float>(step) / n) / n);
    }
    rows.Write(matrix);
  });
}

}  // namespace tare
