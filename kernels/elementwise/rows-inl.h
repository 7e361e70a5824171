// SPDX-License-Identifier: Apache-2.0
// stages.cc compiles this file, once for each instruction set.
#include "kernels/elementwise/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::rows {

void RmsNormRow(const float* x, const float* weight, float eps, size_t n, float* y) {
  const D d;
  V squares = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V v = hn::LoadN(d, x + i, count);
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean = hn::ReduceSum(d, squares) / static_cast<float>(n);
  const V factor = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    V v = hn::Mul(hn::LoadN(d, x + i, count), factor);
    if (weight != nullptr) v = hn::Mul(hn::LoadN(d, weight + i, count), v);
    hn::StoreN(v, d, y + i, count);
  });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  const D d;
  V sums = hn::Zero(d), squares = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR { sums = hn::Add(sums, hn::LoadN(d, x + i, count)); });
  const V mean = hn::Set(d, hn::ReduceSum(d, sums) / static_cast<float>(n));
  const auto centered = [&](size_t i, size_t count) HWY_ATTR { return hn::Sub(hn::LoadN(d, x + i, count), mean); };
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V v = hn::IfThenElseZero(hn::FirstN(d, count), centered(i, count));
    squares = hn::MulAdd(v, v, squares);
  });
  const V factor = hn::Set(d, 1.0f / std::sqrt(hn::ReduceSum(d, squares) / static_cast<float>(n) + eps));
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V v = hn::Mul(centered(i, count), factor);
    hn::StoreN(hn::MulAdd(v, hn::LoadN(d, weight + i, count), hn::LoadN(d, bias + i, count)), d, y + i, count);
  });
}

void RotateHalfRow(float* row, const float* cosine, const float* sine, size_t dim) {
  const D d;
  float* upper = row + dim / 2;
  ForVectors(dim / 2, [&](size_t i, size_t count) HWY_ATTR {
    const V a = hn::LoadN(d, row + i, count);
    const V b = hn::LoadN(d, upper + i, count);
    const V c = hn::LoadN(d, cosine + i, count);
    const V s = hn::LoadN(d, sine + i, count);
    hn::StoreN(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, row + i, count);
    hn::StoreN(hn::MulAdd(a, s, hn::Mul(b, c)), d, upper + i, count);
  });
}

// Takes Exp of -|x| only: Highway's Exp is wrong, not infinite, above 104.
HWY_INLINE V SigmoidOf(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f), e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

void RotateInterleavedRow(float* row, const float* cosine, const float* sine, size_t dim) {
  const D d;
  const size_t half = dim / 2, lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    V a, b;
    hn::LoadInterleaved2(d, row + 2 * i, a, b);
    const V c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    hn::StoreInterleaved2(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, row + 2 * i);
  }
  for (; i < half; ++i) {
    const float a = row[2 * i], b = row[2 * i + 1];
    row[2 * i] = a * cosine[i] - b * sine[i];
    row[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

void PolyNormGluRow(float* gate, const float* up, const PolyNormTerms& terms, size_t n) {
  const D d;
  V squares = hn::Zero(d), fourths = hn::Zero(d), sixths = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V x = hn::LoadN(d, gate + i, count), x2 = hn::Mul(x, x), x4 = hn::Mul(x2, x2);
    squares = hn::Add(squares, x2);
    fourths = hn::Add(fourths, x4);
    sixths = hn::MulAdd(x4, x2, sixths);
  });
  const auto factor = [&](float w, V sums) HWY_ATTR {
    return hn::Set(d, w / std::sqrt(hn::ReduceSum(d, sums) / static_cast<float>(n) + terms.eps));
  };
  const V cube = factor(terms.w[0], sixths), square = factor(terms.w[1], fourths), line = factor(terms.w[2], squares);
  const V bias = hn::Set(d, terms.bias);
  const auto of = [&](V x, V u) HWY_ATTR {
    return hn::Mul(hn::MulAdd(hn::MulAdd(hn::MulAdd(cube, x, square), x, line), x, bias), u);
  };
  Map(n, gate, of, gate, up);
}

void SwiGluRow(float* gate, const float* up, size_t n) {
  Map(n, gate, [](V g, V u) HWY_ATTR { return hn::Mul(hn::Mul(g, SigmoidOf(g)), u); }, gate, up);
}

// (1 + tanh(z)) / 2 = sigmoid(2 z).
void GeGluTanhRow(float* gate, const float* up, size_t n) {
  const D d;
  const V linear = hn::Set(d, 2 * 0.7978845608f), cubic = hn::Set(d, 2 * 0.7978845608f * 0.044715f);  // sqrt(2/pi)
  const auto of = [&](V g, V u) HWY_ATTR {
    const V z = hn::Mul(g, hn::MulAdd(cubic, hn::Mul(g, g), linear));
    return hn::Mul(hn::Mul(g, SigmoidOf(z)), u);
  };
  Map(n, gate, of, gate, up);
}

// x >= 0: x - q, x < 0: -q, where q = |x| erfc(z) / 2, z = |x| / sqrt(2): nothing cancels. erfc(z) = exp(-z^2) times a
// polynomial in t = 1 / (1 + 0.3275911 z), within 1.5e-7. From |x| = 14 on, q is below 1e-41.
void GeluRow(float* row, size_t n) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const auto of = [&](V x) HWY_ATTR {
    const V a = hn::Min(hn::Abs(x), hn::Set(d, 14.0f));
    const V z = hn::Mul(a, hn::Set(d, 0.70710678f));
    const V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 0.3275911f), one));
    V p = hn::Set(d, 1.061405429f);
    for (const float c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
      p = hn::MulAdd(p, t, hn::Set(d, c));
    const V erfc = hn::Mul(hn::Mul(p, t), hn::Exp(d, hn::Neg(hn::Mul(z, z))));
    const V q = hn::Mul(hn::Mul(a, hn::Set(d, 0.5f)), erfc);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(q), hn::Sub(x, q));
  };
  Map(n, row, of, row);
}

void QuickGeluRow(float* row, size_t n) {
  Map(n, row, [](V x) HWY_ATTR { return hn::Mul(x, SigmoidOf(hn::Mul(x, hn::Set(D(), 1.702f)))); }, row);
}

void SigmoidRow(float* row, size_t n) {
  Map(n, row, [](V x) HWY_ATTR { return SigmoidOf(x); }, row);
}

void SoftCapRow(float* row, float cap, size_t n) {
  const V c = hn::Set(D(), cap);
  Map(n, row, [c](V x) HWY_ATTR { return hn::Mul(c, hn::Tanh(D(), hn::Div(x, c))); }, row);
}

float MaxOf(const float* x, size_t n) {
  const D d;
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  V largest = lowest;
  ForVectors(
      n, [&](size_t i, size_t count) HWY_ATTR { largest = hn::Max(largest, hn::LoadNOr(lowest, d, x + i, count)); });
  return hn::ReduceMax(d, largest);
}

void ScaleIntoRow(const float* x, float factor, size_t n, float* y) {
  const V f = hn::Set(D(), factor);
  Map(n, y, [f](V v) HWY_ATTR { return hn::Mul(v, f); }, x);
}

float SoftmaxRow(float* row, float sink, size_t n) {
  const D d;
  const float largest = std::max(sink, MaxOf(row, n)), of_sink = std::exp(sink - largest);
  const V shift = hn::Set(d, largest);
  V sums = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V e = hn::IfThenElseZero(hn::FirstN(d, count), hn::Exp(d, hn::Sub(hn::LoadN(d, row + i, count), shift)));
    sums = hn::Add(sums, e);
    hn::StoreN(e, d, row + i, count);
  });
  const float inverse = 1.0f / (hn::ReduceSum(d, sums) + of_sink);
  ScaleIntoRow(row, inverse, n, row);
  return of_sink * inverse;
}

double LogSumExpRow(const float* row, size_t n) {
  const D d;
  const float largest = MaxOf(row, n);
  const V shift = hn::Set(d, largest);
  const hn::RepartitionToWide<D> dd;
  auto sums = hn::Zero(dd);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const V all = hn::Exp(d, hn::Sub(hn::LoadN(d, row + i, count), shift));
    const V e = hn::IfThenElseZero(hn::FirstN(d, count), all);
    sums = hn::Add(sums, hn::Add(hn::PromoteLowerTo(dd, e), hn::PromoteUpperTo(dd, e)));
  });
  return static_cast<double>(largest) + std::log(hn::ReduceSum(dd, sums));
}

void AddToRow(float* row, const float* x, size_t n) {
  Map(n, row, [](V a, V b) HWY_ATTR { return hn::Add(a, b); }, row, x);
}

void MultiplyByRow(float* row, const float* x, size_t n) {
  Map(n, row, [](V a, V b) HWY_ATTR { return hn::Mul(a, b); }, row, x);
}

void SubtractScaledRow(float* row, const float* x, float factor, size_t n) {
  const V f = hn::Set(D(), factor);
  Map(n, row, [f](V a, V b) HWY_ATTR { return hn::NegMulAdd(f, b, a); }, row, x);
}

// The values as bfloat16, in the low halves of 32-bit lanes.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bf16Bits(const float* x, size_t count) {
  const hn::RebindToUnsigned<D> du;
  const auto half = hn::Set(du, 0x7fffu), one = hn::Set(du, 1u), quiet = hn::Set(du, 0x40u),
             infinity = hn::Set(du, 0x7f800000u);
  const auto bits = hn::LoadN(du, reinterpret_cast<const uint32_t*>(x), count);
  const auto high = hn::ShiftRight<16>(bits);
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, half), hn::And(high, one)));
  const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7fffffffu)), infinity);
  return hn::IfThenElse(is_nan, hn::Or(high, quiet), rounded);
}

void ToBf16Row(const float* x, size_t n, uint16_t* y) {
  const hn::Rebind<uint16_t, D> du16;
  ForVectors(n, [&](size_t i, size_t count)
                    HWY_ATTR { hn::StoreN(hn::TruncateTo(du16, Bf16Bits(x + i, count)), du16, y + i, count); });
}

void ToBf16PairRows(const float* a, const float* b, size_t n, uint16_t* y) {
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const auto pairs = hn::Or(Bf16Bits(a + i, count), hn::ShiftLeft<16>(Bf16Bits(b + i, count)));
    hn::StoreN(hn::BitCast(D(), pairs), D(), reinterpret_cast<float*>(y) + i, count);
  });
}

void FromNibblesRow(const NibbleRow& x, size_t n, float* y) {
  const DF d;
  const hn::Rebind<uint8_t, DF> d8;
  const hn::Half<decltype(d8)> half;
  alignas(64) float values[16];
  std::copy_n(x.values, 16, values);
  for (size_t g = 0, i = 0; i < n; ++g) {
    const VF zero = hn::Set(d, x.zeros[g]), scale = hn::Set(d, x.scales[g]);
    for (const size_t end = std::min(i + static_cast<size_t>(x.columns), n); i < end; i += kLanes) {
      const auto two = hn::ZeroExtendVector(d8, hn::LoadU(half, reinterpret_cast<const uint8_t*>(x.codes) + i / 2));
      const auto codes = hn::InterleaveLower(d8, hn::And(two, hn::Set(d8, 15)), hn::ShiftRight<4>(two));
      hn::StoreU(hn::Mul(hn::Sub(Look(values, hn::PromoteTo(DI(), codes)), zero), scale), d, y + i);
    }
  }
}

void FromF16Row(const uint16_t* x, size_t n, float* y) {
  const hn::Rebind<uint16_t, D> du16;
  const hn::Rebind<hwy::float16_t, D> df16;
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    hn::StoreN(hn::PromoteTo(D(), hn::BitCast(df16, hn::LoadN(du16, x + i, count))), D(), y + i, count);
  });
}

}  // namespace HWY_NAMESPACE::rows
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void RmsNorm(const float* x, const float* weight, float eps, size_t n, float* y) {
  TARE_CHOSEN(rows::RmsNormRow)(x, weight, eps, n, y);
}
void RotateHalf(float* row, const float* cosine, const float* sine, size_t d) {
  TARE_CHOSEN(rows::RotateHalfRow)(row, cosine, sine, d);
}
void RotateInterleaved(float* row, const float* cosine, const float* sine, size_t d) {
  TARE_CHOSEN(rows::RotateInterleavedRow)(row, cosine, sine, d);
}
void PolyNormGlu(float* gate, const float* up, const PolyNormTerms& terms, size_t n) {
  TARE_CHOSEN(rows::PolyNormGluRow)(gate, up, terms, n);
}
void SwiGlu(float* gate, const float* up, size_t n) { TARE_CHOSEN(rows::SwiGluRow)(gate, up, n); }
void GeGluTanh(float* gate, const float* up, size_t n) { TARE_CHOSEN(rows::GeGluTanhRow)(gate, up, n); }
void Sigmoid(float* row, size_t n) { TARE_CHOSEN(rows::SigmoidRow)(row, n); }
void SoftCap(float* row, float cap, size_t n) { TARE_CHOSEN(rows::SoftCapRow)(row, cap, n); }
void Softmax(float* row, size_t n) { TARE_CHOSEN(rows::SoftmaxRow)(row, -std::numeric_limits<float>::infinity(), n); }
float SoftmaxWithSink(float* row, float sink, size_t n) { return TARE_CHOSEN(rows::SoftmaxRow)(row, sink, n); }
double LogSumExp(const float* row, size_t n) { return TARE_CHOSEN(rows::LogSumExpRow)(row, n); }
void AddTo(float* row, const float* x, size_t n) { TARE_CHOSEN(rows::AddToRow)(row, x, n); }
void MultiplyBy(float* row, const float* x, size_t n) { TARE_CHOSEN(rows::MultiplyByRow)(row, x, n); }
void ScaleInto(const float* x, float factor, size_t n, float* y) { TARE_CHOSEN(rows::ScaleIntoRow)(x, factor, n, y); }
void SubtractScaled(float* row, const float* x, float factor, size_t n) {
  TARE_CHOSEN(rows::SubtractScaledRow)(row, x, factor, n);
}
void LayerNorm(const float* x, const float* weight, const float* bias, float eps, size_t n, float* y) {
  TARE_CHOSEN(rows::LayerNormRow)(x, weight, bias, eps, n, y);
}
void Gelu(float* row, size_t n) { TARE_CHOSEN(rows::GeluRow)(row, n); }
void QuickGelu(float* row, size_t n) { TARE_CHOSEN(rows::QuickGeluRow)(row, n); }
float AbsMax(const float* x, size_t n) { return TARE_CHOSEN(AbsMaxRow)(x, n); }
void ToBf16(const float* x, size_t n, uint16_t* y) { TARE_CHOSEN(rows::ToBf16Row)(x, n, y); }
void ToBf16Pairs(const float* a, const float* b, size_t n, uint16_t* y) {
  TARE_CHOSEN(rows::ToBf16PairRows)(a, b, n, y);
}
void FromNibbles(const NibbleRow& x, size_t n, float* y) { TARE_CHOSEN(rows::FromNibblesRow)(x, n, y); }
void FromF16(const uint16_t* x, size_t n, float* y) { TARE_CHOSEN(rows::FromF16Row)(x, n, y); }

}  // namespace tare
#endif  // HWY_ONCE
