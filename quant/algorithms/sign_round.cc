// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/sign_round.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "quant/base/error.h"
#include "quant/base/parallel.h"
#include "quant/format/nearest_integer.h"
#include "quant/format/pack.h"
#include "quant/format/quantize.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr float kSmallestRange = 1e-3f;  // of alpha and beta, whose bound of 0 is open

// What is learned of a group, and its fixed parts.
struct LearnedGroup {
  Ends widest = {0, 0};  // for alpha and beta of 1
  float centre = 0;      // that the ends shrink to
  float alpha = 1, beta = 1;

  Ends Now() const { return {centre + alpha * (widest.low - centre), centre + beta * (widest.high - centre)}; }
};

// Of all rows.
using Lanes = std::array<float, kRowsTogether>;

// A group's scales.
struct GroupLanes {
  Lanes scale, inv, zero, origin;
};

// d L / d of these, and of the groups' lower ends where that is not by way of the scale.
struct GroupGradients {
  std::array<double, kRowsTogether> scale{}, low{};
};

template <typename T>
T Sign(T x) {
  return (x > 0 ? T{1} : T{0}) - (x < 0 ? T{1} : T{0});
}

// Rows in progress: lanes, so that loops over them are vectors'. Lanes without a row are zeros.
class LearnedRows {
 public:
  LearnedRows(const QuantizedMatrix& m, int64_t first, const ReadRow& read, const GroupEnds& ends)
      : m_(m),
        first_(first),
        count_(std::min(kRowsTogether, m.out - first)),
        groups_(static_cast<size_t>(m.Groups() * kRowsTogether)),
        lanes_(static_cast<size_t>(m.Groups())) {
    for (AlignedBuffer<float>* buffer : {&w_, &v_, &codes_, &error_, &product_, &inside_, &best_codes_}) {
      buffer->Reset(Panels::ValuesFor(m.in));
      std::fill_n(buffer->data(), buffer->size(), 0.0f);
    }
    std::vector<float> row(static_cast<size_t>(m.in));
    for (int64_t r = 0; r < count_; ++r) {
      read(first + r, row.data());
      if (const auto bad = FirstNotFinite(row))
        Fail("weights, row {}: got {} at {}, expected finite values", first + r, row[*bad], *bad);
      for (int64_t i = 0; i < m.in; ++i) w_[i * kRowsTogether + r] = row[i];
      for (int64_t g = 0; g < m.Groups(); ++g) {
        LearnedGroup& group = groups_[g * kRowsTogether + r];
        group.widest = ends(first + r, g, row.data() + g * m.group, m.GroupEnd(g) - g * m.group);
        if (Info(m.format).range == CodeRange::kMin) group.centre = (group.widest.low + group.widest.high) / 2;
      }
    }
    best_groups_ = groups_;
    best_.fill(HUGE_VAL);
  }

  // Codes and errors of what is learned so far, and the errors times H.
  void RoundAll(const Panels& h) {
    for (int64_t g = 0; g < m_.Groups(); ++g) {
      GroupLanes& lanes = lanes_[g];
      for (int64_t r = 0; r < kRowsTogether; ++r) {
        const GroupScale scale = GroupScaleFor(groups_[g * kRowsTogether + r].Now(), m_.format, 0);
        lanes.scale[r] = scale.scale.scale, lanes.inv[r] = scale.scale.inv;
        lanes.zero[r] = scale.zero, lanes.origin[r] = scale.origin;
      }
      for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) RoundColumn(lanes, i * kRowsTogether);
    }
    std::fill_n(product_.data(), product_.size(), 0.0f);
    h.AddProducts({0, m_.in}, {0, h.count()}, error_.data(), product_.data());
  }

  // Keeps each row's best.
  void KeepBest() {
    std::array<double, kRowsTogether> loss{};
    for (int64_t i = 0; i < m_.in; ++i) {
      const float* const product = &product_[i * kRowsTogether];
      const float* const error = &error_[i * kRowsTogether];
      for (int64_t r = 0; r < kRowsTogether; ++r) loss[r] += double{product[r]} * double{error[r]};
    }
    Lanes better;
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      better[r] = loss[r] < best_[r] ? 1.0f : 0.0f;
      if (better[r] == 0) continue;
      best_[r] = loss[r];
      for (int64_t g = 0; g < m_.Groups(); ++g) best_groups_[g * kRowsTogether + r] = groups_[g * kRowsTogether + r];
    }
    if (std::ranges::count(better, 1.0f) == 0) return;
    for (int64_t i = 0; i < m_.in; ++i) {
      const float* __restrict const codes = &codes_[i * kRowsTogether];
      float* __restrict const best = &best_codes_[i * kRowsTogether];
      for (int64_t r = 0; r < kRowsTogether; ++r) best[r] = better[r] != 0 ? codes[r] : best[r];
    }
  }

  // One step against the signs of the gradient.
  void Step(float rate) {
    for (int64_t g = 0; g < m_.Groups(); ++g) {
      const GroupGradients gradients = GradientsOf(g);
      Lanes rates;  // a group of zeros stays as it is
      for (int64_t r = 0; r < kRowsTogether; ++r) {
        rates[r] = lanes_[g].scale[r] == 0 ? 0 : rate;
        StepRange(gradients.scale[r], gradients.low[r], rates[r], groups_[g * kRowsTogether + r]);
      }
      for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) MoveColumn(rates, i * kRowsTogether);
    }
  }

  void Write(QuantizedMatrixBuffer& matrix) const {
    std::vector<float> codes(static_cast<size_t>(m_.in));
    for (int64_t r = 0; r < count_; ++r) {
      for (int64_t g = 0; g < m_.Groups(); ++g)
        matrix.SetScale(first_ + r, g, best_groups_[g * kRowsTogether + r].Now());
      for (int64_t i = 0; i < m_.in; ++i) codes[i] = best_codes_[i * kRowsTogether + r];
      Pack<float>(m_.format, codes, {matrix.Codes(first_ + r), m_.RowBytes()});
    }
  }

 private:
  // As round.h rounds and dequantizes, with v before rounding.
  void RoundColumn(const GroupLanes& lanes, int64_t at) {
    const float* __restrict const w = &w_[at];
    const float* __restrict const v = &v_[at];
    float* __restrict const codes = &codes_[at];
    float* __restrict const inside = &inside_[at];
    float* __restrict const error = &error_[at];
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      const float code = NearestInteger((w[r] - lanes.origin[r]) * lanes.inv[r] + v[r]) + lanes.zero[r];
      const float held = std::min(std::max(code, least_), most_);
      codes[r] = held;
      inside[r] = held == code ? 1.0f : 0.0f;
      error[r] = (held - lanes.zero[r]) * lanes.scale[r] + lanes.origin[r] - w[r];
    }
  }

  void MoveColumn(const Lanes& rates, int64_t at) {
    const float* __restrict const gradient = &product_[at];
    const float* __restrict const inside = &inside_[at];
    float* __restrict const v = &v_[at];
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      const float moved = v[r] - rates[r] * inside[r] * Sign(gradient[r]);
      v[r] = std::min(std::max(moved, -0.5f), 0.5f);
    }
  }

  // value = (code - zero) scale + origin. Inside, code - zero = w's steps + v; a clamped code is constant, and its
  // value moves with the scale and, where there is a zero point (-low / scale) or a minimum (low), with the lower end.
  GroupGradients GradientsOf(int64_t g) const {
    Lanes low_steps{};  // low / scale, of a zero point
    if (Info(m_.format).range == CodeRange::kZero) {
      for (int64_t r = 0; r < kRowsTogether; ++r)
        low_steps[r] = std::min(groups_[g * kRowsTogether + r].Now().low, 0.0f) * lanes_[g].inv[r];
    }
    GroupGradients sums;
    for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i) AddColumn(lanes_[g], low_steps, i * kRowsTogether, sums);
    return sums;
  }

  void AddColumn(const GroupLanes& lanes, const Lanes& low_steps, int64_t at, GroupGradients& sums) const {
    const float* const w = &w_[at];
    const float* const codes = &codes_[at];
    const float* const product = &product_[at];
    const float* const inside = &inside_[at];
    Lanes of_scale, of_low;  // apart from the sums in double: a loop with both types is not vectors'
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      const float clamped = 1 - inside[r];
      const float moves = inside[r] * (w[r] - lanes.origin[r]) * lanes.inv[r] + clamped * low_steps[r];
      of_scale[r] = product[r] * (codes[r] - lanes.zero[r] - moves);
      of_low[r] = product[r] * clamped;
    }
    for (int64_t r = 0; r < kRowsTogether; ++r) sums.scale[r] += double{of_scale[r]};
    for (int64_t r = 0; r < kRowsTogether; ++r) sums.low[r] += double{of_low[r]};
  }

  // scale = (high - low) / qmax; without an offset high / qmax, and low follows.
  void StepRange(double of_scale, double of_low_end, float rate, LearnedGroup& group) const {
    const double qmax = Info(m_.format).Largest();
    const double of_high = of_scale / qmax * double{group.widest.high - group.centre};
    const double of_low = (of_low_end - of_scale / qmax) * double{group.widest.low - group.centre};
    group.beta = std::clamp(group.beta - rate * static_cast<float>(Sign(of_high)), kSmallestRange, 1.0f);
    group.alpha = HasOffset(m_.format)
                      ? std::clamp(group.alpha - rate * static_cast<float>(Sign(of_low)), kSmallestRange, 1.0f)
                      : group.beta;
  }

  const QuantizedMatrix& m_;
  int64_t first_, count_;
  float least_ = static_cast<float>(Info(m_.format).min_code), most_ = static_cast<float>(Info(m_.format).max_code);
  AlignedBuffer<float> w_, v_, codes_, error_, product_;  // [in][kRowsTogether]; product_: error_ times H
  AlignedBuffer<float> inside_;                           // 1 where the code is not clamped
  AlignedBuffer<float> best_codes_;
  std::vector<LearnedGroup> groups_, best_groups_;  // [groups][kRowsTogether]
  std::vector<GroupLanes> lanes_;                   // [groups] of groups_ as they were rounded
  std::array<double, kRowsTogether> best_;          // loss
};

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
  ParallelFor(static_cast<size_t>((m.out + kRowsTogether - 1) / kRowsTogether), [&](size_t block, int) {
    LearnedRows rows(m, static_cast<int64_t>(block) * kRowsTogether, read, ends);
    const auto n = static_cast<float>(steps);
    for (int step = 0; step <= steps; ++step) {
      rows.RoundAll(hessian_);
      rows.KeepBest();
      if (step < steps) rows.Step((1.0f - static_cast<float>(step) / n) / n);
    }
    rows.Write(matrix);
  });
}

}  // namespace tare
