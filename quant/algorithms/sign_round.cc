// SPDX-License-Identifier: Apache-2.0
#include "quant/algorithms/sign_round.h"

#include <algorithm>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/base/widest_vectors.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr float kSmallestRange = 1e-3f;  // of alpha and beta, whose bound of 0 is open

template <typename T>
T Sign(T x) {
  return (x > 0 ? T{1} : T{0}) - (x < 0 ? T{1} : T{0});
}

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

}  // namespace

LearnedRows::LearnedRows(const QuantizedMatrix& m, int64_t first, const ReadRow& read, const GroupEnds& ends)
    : m_(&m),
      first_(first),
      count_(std::min(kRowsTogether, m.out - first)),
      least_(static_cast<float>(Info(m.format).min_code)),
      most_(static_cast<float>(Info(m.format).max_code)),
      groups_(static_cast<size_t>(m.Groups() * kRowsTogether)),
      scales_(static_cast<size_t>(m.Groups())) {
  for (AlignedBuffer<float>* buffer : {&w_, &v_, &codes_, &error_, &gradient_, &inside_, &kept_codes_})
    *buffer = Panels::Zeros(m.in);
  std::vector<float> row(static_cast<size_t>(m.in));
  for (int64_t r = 0; r < count_; ++r) {
    read(first + r, row.data());
    if (const auto bad = FirstNotFinite(row))
      Fail("weights, row {}: got {} at {}, expected finite values", first + r, row[*bad], *bad);
    for (int64_t i = 0; i < m.in; ++i) w_[i * kRowsTogether + r] = row[i];
    for (int64_t g = 0; g < m.Groups(); ++g) {
      Group& group = groups_[g * kRowsTogether + r];
      group.widest = ends(first + r, g, row.data() + g * m.group, m.GroupEnd(g) - g * m.group);
      if (m.format.range == CodeRange::kMin) group.centre = (group.widest.low + group.widest.high) / 2;
    }
  }
  kept_groups_ = groups_;
}

void LearnedRows::Round() {
  for (int64_t g = 0; g < m_->Groups(); ++g) {
    Scales& lanes = scales_[g];
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      const GroupScale scale = GroupScaleFor(groups_[g * kRowsTogether + r].Now(), m_->format, 0);
      lanes.scale[r] = scale.scale.scale, lanes.inv[r] = scale.scale.inv;
      lanes.zero[r] = scale.zero, lanes.origin[r] = scale.origin;
    }
    InWidestVectors([&, end = m_->GroupEnd(g)]() TARE_INTO_CALLER {
      for (int64_t i = g * m_->group; i < end; ++i) RoundColumn(lanes, i * kRowsTogether);
    });
  }
}

void LearnedRows::CopyValues(int64_t lane, float* row) const {
  for (int64_t g = 0; g < m_->Groups(); ++g) {
    const Scales& lanes = scales_[g];
    for (int64_t i = g * m_->group; i < m_->GroupEnd(g); ++i)
      row[i] = (codes_[i * kRowsTogether + lane] - lanes.zero[lane]) * lanes.scale[lane] + lanes.origin[lane];
  }
}

void LearnedRows::Keep(const Lanes& better) {
  for (int64_t g = 0; g < m_->Groups(); ++g) {
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      if (better[r] != 0) kept_groups_[g * kRowsTogether + r] = groups_[g * kRowsTogether + r];
    }
  }
  InWidestVectors([&]() TARE_INTO_CALLER {
    for (int64_t i = 0; i < m_->in; ++i) {
      const float* __restrict const codes = &codes_[i * kRowsTogether];
      float* __restrict const kept = &kept_codes_[i * kRowsTogether];
      for (int64_t r = 0; r < kRowsTogether; ++r) kept[r] = better[r] != 0 ? codes[r] : kept[r];
    }
  });
}

// One step against the signs of the gradient.
void LearnedRows::Step(float rate) {
  for (int64_t g = 0; g < m_->Groups(); ++g) {
    const Gradients gradients = GradientsOf(g);
    Lanes rates;  // a group of zeros stays as it is
    for (int64_t r = 0; r < kRowsTogether; ++r) {
      rates[r] = scales_[g].scale[r] == 0 ? 0 : rate;
      StepRange(gradients.scale[r], gradients.low[r], rates[r], groups_[g * kRowsTogether + r]);
    }
    InWidestVectors([&, end = m_->GroupEnd(g)]() TARE_INTO_CALLER {
      for (int64_t i = g * m_->group; i < end; ++i) MoveColumn(rates, i * kRowsTogether);
    });
  }
}

void LearnedRows::Write(QuantizedMatrixBuffer& matrix) const {
  std::vector<float> codes(static_cast<size_t>(m_->in));
  for (int64_t r = 0; r < count_; ++r) {
    for (int64_t g = 0; g < m_->Groups(); ++g)
      matrix.SetScale(first_ + r, g, kept_groups_[g * kRowsTogether + r].Now());
    for (int64_t i = 0; i < m_->in; ++i) codes[i] = kept_codes_[i * kRowsTogether + r];
    Pack<float>(m_->format, codes, {matrix.Codes(first_ + r), m_->RowBytes()});
  }
}

// As round.h rounds and dequantizes, with v before rounding.
TARE_INTO_CALLER inline void LearnedRows::RoundColumn(const Scales& lanes, int64_t at) {
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

TARE_INTO_CALLER inline void LearnedRows::MoveColumn(const Lanes& rates, int64_t at) {
  const float* __restrict const gradient = &gradient_[at];
  const float* __restrict const inside = &inside_[at];
  float* __restrict const v = &v_[at];
  for (int64_t r = 0; r < kRowsTogether; ++r) {
    const float moved = v[r] - rates[r] * inside[r] * Sign(gradient[r]);
    v[r] = std::min(std::max(moved, -0.5f), 0.5f);
  }
}

// value = (code - zero) scale + origin. Inside, code - zero = w's steps + v; a clamped code is constant, and its
// value moves with the scale and, where there is a zero point (-low / scale) or a minimum (low), with the lower end.
LearnedRows::Gradients LearnedRows::GradientsOf(int64_t g) const {
  Lanes low_steps{};  // low / scale, of a zero point
  if (m_->format.range == CodeRange::kZero) {
    for (int64_t r = 0; r < kRowsTogether; ++r)
      low_steps[r] = std::min(groups_[g * kRowsTogether + r].Now().low, 0.0f) * scales_[g].inv[r];
  }
  Gradients sums;
  InWidestVectors([&, end = m_->GroupEnd(g)]() TARE_INTO_CALLER {
    for (int64_t i = g * m_->group; i < end; ++i) AddColumn(scales_[g], low_steps, i * kRowsTogether, sums);
  });
  return sums;
}

TARE_INTO_CALLER inline void LearnedRows::AddColumn(const Scales& lanes, const Lanes& low_steps, int64_t at,
                                                    Gradients& sums) const {
  const float *const w = &w_[at], *const codes = &codes_[at];
  const float *const gradient = &gradient_[at], *const inside = &inside_[at];
  Lanes of_scale, of_low;  // apart from the sums in double: a loop with both types is not vectors'
  for (int64_t r = 0; r < kRowsTogether; ++r) {
    const float clamped = 1 - inside[r];
    const float moves = inside[r] * (w[r] - lanes.origin[r]) * lanes.inv[r] + clamped * low_steps[r];
    of_scale[r] = gradient[r] * (codes[r] - lanes.zero[r] - moves);
    of_low[r] = gradient[r] * clamped;
  }
  for (int64_t r = 0; r < kRowsTogether; ++r) sums.scale[r] += double{of_scale[r]};
  for (int64_t r = 0; r < kRowsTogether; ++r) sums.low[r] += double{of_low[r]};
}

// scale = (high - low) / qmax; without an offset high / qmax, and low follows.
void LearnedRows::StepRange(double of_scale, double of_low_end, float rate, Group& group) const {
  const double qmax = Info(m_->format).Largest();
  const double of_high = of_scale / qmax * double{group.widest.high - group.centre};
  const double of_low = (of_low_end - of_scale / qmax) * double{group.widest.low - group.centre};
  group.beta = std::clamp(group.beta - rate * static_cast<float>(Sign(of_high)), kSmallestRange, 1.0f);
  group.alpha = HasOffset(m_->format)
                    ? std::clamp(group.alpha - rate * static_cast<float>(Sign(of_low)), kSmallestRange, 1.0f)
                    : group.beta;
}

SignRound::SignRound(const std::vector<float>& hessian, int64_t in, const std::string& where)
    : in_(in), hessian_(Panels::Shape::kFull, in, BothTriangles(hessian, in, where).data()) {}

void SignRound::Round(const ReadRow& read, const GroupEnds& ends, int steps, QuantizedMatrixBuffer& matrix) const {
  const QuantizedMatrix& m = matrix.view();
  CheckEqual("SignRound", "inputs", m.in, in_);
  CheckRange("SignRound", "steps", steps, 1);
  if (!IsInteger(m.format)) Fail("SignRound: got {}, expected integer codes", Name(m.format));
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
