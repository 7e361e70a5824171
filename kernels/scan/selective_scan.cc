// SPDX-License-Identifier: Apache-2.0
#include "kernels/scan/selective_scan.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scan/selective_scan.cc"
// clang-format off: this one before every other of Highway's
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "kernels/elementwise/lanes-inl.h"
#include "quant/base/aligned.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

// x / (1 + exp(-x)), by exp(-|x|): Highway's Exp is wrong, not infinite, above 104.
HWY_INLINE V SiluOf(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f), e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one)), hn::Add(one, e));
}

// Tap j of token t: a value of the history where t - k + 1 + j < 0.
HWY_INLINE const float* Tap(const ScanParameters& p, TokenRows<const float> x, const float* history, int64_t t,
                            int64_t j) {
  const int64_t from = t - p.taps + 1 + j;
  return from < 0 ? history + (from + p.taps - 1) * p.Convolved() : x.data + from * x.stride;
}

// Afterwards the history holds the last k - 1 tokens.
void Convolve(const ScanParameters& p, ChannelRange channels, int64_t tokens, TokenRows<const float> x, float* history,
              TokenRows<float> y) {
  const D d;
  const int64_t begin = channels.begin;
  for (int64_t t = 0; t < tokens; ++t) {
    ForVectors(static_cast<size_t>(channels.end - begin), [&](size_t i, size_t count) HWY_ATTR {
      const int64_t c = begin + static_cast<int64_t>(i);
      V sum = hn::LoadN(d, p.conv_bias.data() + c, count);
      for (int64_t j = 0; j < p.taps; ++j)
        sum = hn::MulAdd(hn::LoadN(d, p.conv.data() + j * p.Convolved() + c, count),
                         hn::LoadN(d, Tap(p, x, history, t, j) + c, count), sum);
      hn::StoreN(SiluOf(sum), d, y.data + t * y.stride + c, count);
    });
  }
  for (int64_t j = 0; j + 1 < p.taps; ++j) {
    const float* const source = Tap(p, x, history, tokens, j);
    std::copy(source + begin, source + channels.end, history + j * p.Convolved() + begin);
  }
}

// 2^x of x <= 0, within 3e-7; 0 from -127 on, NaN of NaN. A minimax polynomial of 2^f (Remez), within 2e-9.
HWY_INLINE V Exp2(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V from = hn::Max(hn::Set(d, -127.0f), x), whole = hn::Round(from), f = hn::Sub(from, whole);
  V p = hn::Set(d, 1.534581e-4f);
  for (const float next : {1.3399931e-3f, 9.618489e-3f, 5.5503286e-2f, 2.4022646e-1f, 6.9314718e-1f, 1.0f})
    p = hn::MulAdd(p, f, hn::Set(d, next));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, whole))));
}

// Rows of a: one for each state, or for all.
HWY_INLINE int64_t RatesOf(const ScanParameters& p) { return static_cast<int64_t>(p.a.size()) / p.channels; }

// One vector of channels through all tokens; a (in octaves), states [N][lanes].
HWY_INLINE void ScanLanes(const ScanParameters& p, int64_t c, size_t count, int64_t tokens, const ScanInputs& in,
                          const float* a, float* states, TokenRows<float> y) {
  const int64_t rates = RatesOf(p);
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V skip = hn::LoadN(d, p.d.data() + c, count);
  for (int64_t t = 0; t < tokens; ++t) {
    const V u = hn::LoadN(d, in.u.data + t * in.u.stride + c, count);
    const V delta = hn::LoadN(d, in.delta.data + t * in.delta.stride + c, count);
    const V step = hn::Mul(delta, u);
    const float* const b = in.b.data + t * in.b.stride;
    const float* const cc = in.c.data + t * in.c.stride;
    V sum = hn::Mul(skip, u), decay = hn::Zero(d);
    for (int64_t n = 0; n < p.states; ++n) {
      float* const s = states + n * lanes;
      if (n < rates) decay = Exp2(hn::Mul(delta, hn::Load(d, a + n * lanes)));
      const V next = hn::MulAdd(step, hn::Set(d, b[n]), hn::Mul(decay, hn::Load(d, s)));
      sum = hn::MulAdd(next, hn::Set(d, cc[n]), sum);
      hn::Store(next, d, s);
    }
    hn::StoreN(sum, d, y.data + t * y.stride + c, count);
  }
}

// Rates and states of a vector of channels are copied side by side for all tokens: where they are, with 5120 channels,
// all of one channel lie in the same set of the nearest cache, and a part of a vector is stored by a mask, which the
// next token's load waits for. The exponential is the scan's own, since Highway's took half of the time.
void Scan(const ScanParameters& p, ChannelRange channels, int64_t tokens, const ScanInputs& in, float* state,
          TokenRows<float> y) {
  thread_local AlignedBuffer<float> copies;  // [2][N][lanes]
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  copies.Reserve(static_cast<size_t>(2 * p.states * lanes));
  float* const a = copies.data();
  float* const states = a + p.states * lanes;
  std::fill_n(a, 2 * p.states * lanes, 0.0f);
  ForVectors(static_cast<size_t>(channels.end - channels.begin), [&](size_t i, size_t count) HWY_ATTR {
    const D d;
    const V octaves = hn::Set(d, 1.44269504f);  // in a nat
    const int64_t c = channels.begin + static_cast<int64_t>(i);
    for (int64_t n = 0; n < RatesOf(p); ++n)
      hn::Store(hn::Mul(octaves, hn::LoadN(d, p.a.data() + n * p.channels + c, count)), d, a + n * lanes);
    for (int64_t n = 0; n < p.states; ++n) std::copy_n(state + n * p.channels + c, count, states + n * lanes);
    ScanLanes(p, c, count, tokens, in, a, states, y);
    for (int64_t n = 0; n < p.states; ++n) std::copy_n(states + n * lanes, count, state + n * p.channels + c);
  });
}

// max(x, 0) + log1p(exp(-|x|)).
void SoftplusRow(float* row, const float* bias, int64_t n) {
  const auto of = [](V a, V b) HWY_ATTR {
    const D d;
    const V x = hn::Add(a, b);
    return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x)))));
  };
  Map(static_cast<size_t>(n), row, of, row, bias);
}

void SiluGateRow(const float* x, const float* gate, int64_t n, float* y) {
  Map(static_cast<size_t>(n), y, [](V a, V g) HWY_ATTR { return hn::Mul(a, SiluOf(g)); }, x, gate);
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void CausalConvolution(const ScanParameters& p, ChannelRange channels, int64_t tokens, TokenRows<const float> x,
                       float* history, TokenRows<float> y) {
  TARE_CHOSEN(Convolve)(p, channels, tokens, x, history, y);
}

void SelectiveScan(const ScanParameters& p, ChannelRange channels, int64_t tokens, const ScanInputs& in, float* state,
                   TokenRows<float> y) {
  TARE_CHOSEN(Scan)(p, channels, tokens, in, state, y);
}

void SoftplusOfSum(float* row, const float* bias, int64_t n) { TARE_CHOSEN(SoftplusRow)(row, bias, n); }

void SiluGate(const float* x, const float* gate, int64_t n, float* y) { TARE_CHOSEN(SiluGateRow)(x, gate, n, y); }

}  // namespace tare
#endif
