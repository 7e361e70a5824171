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

// 2^x of x <= 0, within 3e-7; 0 from -127 on, NaN of NaN. A minimax polynomial of 2^f (Remez), but 2^0 is 1.
HWY_INLINE V Exp2(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  const V from = hn::Max(hn::Set(d, -127.0f), x), whole = hn::Round(from), f = hn::Sub(from, whole);
  V p = hn::Set(d, 1.32764725e-3f);
  for (const float next : {9.67554096e-3f, 5.55071309e-2f, 0.240221202f, 0.693146944f, 1.0f})
    p = hn::MulAdd(p, f, hn::Set(d, next));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, whole))));
}

// Rows of a: one for each state, or for all.
HWY_INLINE int64_t RatesOf(const ScanParameters& p) { return static_cast<int64_t>(p.a.size()) / p.channels; }

// Vectors of channels side by side, which share b and c. A token's rows lie KiB apart: no processor reads ahead there.
constexpr int kVectors = 4;
constexpr int64_t kTokensAhead = 4;

// Channels c to c + count. a, states: rows of kVectors whole vectors, `stride` apart.
struct ScanBlock {
  int64_t c, count;
  const float* a;
  float* states;
  int64_t stride;
};

HWY_INLINE void ScanTokens(const ScanParameters& p, const ScanBlock& block, int64_t tokens, const ScanInputs& in,
                           TokenRows<float> y) {
  const int64_t rates = RatesOf(p);
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V octaves = hn::Set(d, 1.44269504f);  // in a nat
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t later = std::min(t + kTokensAhead, tokens - 1);
    for (int64_t i = block.c; i <= block.c + kVectors * lanes; i += 16) {
      __builtin_prefetch(in.u.data + later * in.u.stride + i);
      __builtin_prefetch(in.delta.data + later * in.delta.stride + i);
      __builtin_prefetch(y.data + later * y.stride + i, 1);
    }
    size_t counts[kVectors];
    V delta[kVectors], step[kVectors], sum[kVectors], decay[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = block.c + v * lanes;
      counts[v] = static_cast<size_t>(std::clamp<int64_t>(block.count - v * lanes, 0, lanes));
      const V u = hn::LoadN(d, in.u.data + t * in.u.stride + c, counts[v]);
      const V of_token = hn::LoadN(d, in.delta.data + t * in.delta.stride + c, counts[v]);
      step[v] = hn::Mul(of_token, u);
      delta[v] = hn::Mul(of_token, octaves);
      sum[v] = hn::Mul(hn::LoadN(d, p.d.data() + c, counts[v]), u);
    }
    for (int64_t n = 0; n < p.states; ++n) {
      const V b = hn::Set(d, in.b.data[t * in.b.stride + n]), cc = hn::Set(d, in.c.data[t * in.c.stride + n]);
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = n * block.stride + v * lanes;
        if (n < rates) decay[v] = Exp2(hn::Mul(delta[v], hn::LoadU(d, block.a + at)));
        const V next = hn::MulAdd(step[v], b, hn::Mul(decay[v], hn::LoadU(d, block.states + at)));
        sum[v] = hn::MulAdd(next, cc, sum[v]);
        hn::StoreU(next, d, block.states + at);
      }
    }
    for (int v = 0; v < kVectors; ++v) hn::StoreN(sum[v], d, y.data + t * y.stride + block.c + v * lanes, counts[v]);
  }
}

// Rates and states of several tokens are copied side by side: where they are, with 5120 channels, all of one channel
// lie in the same set of the nearest cache. The exponential is the scan's own, since Highway's took half of the time.
void Scan(const ScanParameters& p, ChannelRange channels, int64_t tokens, const ScanInputs& in, float* state,
          TokenRows<float> y) {
  thread_local AlignedBuffer<float> copies;  // [2][N][width]
  const int64_t C = p.channels, rates = RatesOf(p), width = kVectors * static_cast<int64_t>(hn::Lanes(D()));
  copies.Reserve(static_cast<size_t>(2 * p.states * width));
  float *const a = copies.data(), *const states = a + p.states * width;
  for (int64_t c = channels.begin; c < channels.end; c += width) {
    const int64_t count = std::min(width, channels.end - c);
    if (tokens == 1 && count == width) {
      ScanTokens(p, {c, count, p.a.data() + c, state + c, C}, tokens, in, y);
      continue;
    }
    for (int64_t n = 0; n < rates; ++n) std::copy_n(p.a.data() + n * C + c, count, a + n * width);
    for (int64_t n = 0; n < p.states; ++n) std::copy_n(state + n * C + c, count, states + n * width);
    ScanTokens(p, {c, count, a, states, width}, tokens, in, y);
    for (int64_t n = 0; n < p.states; ++n) std::copy_n(states + n * width, count, state + n * C + c);
  }
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
