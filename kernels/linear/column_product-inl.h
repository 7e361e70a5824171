// SPDX-License-Identifier: Apache-2.0
// ColumnProduct of projector.h. A piece of W^T, [depth, 128], becomes the factor of a tile product in cache, and then
// the next piece is asked for, to arrive during the product: rows of W^T are many KiB apart, nothing else reads ahead,
// and with few rows of x a product does not outlast the wait. stages.cc compiles it for each instruction set.
#include "kernels/linear/projector.h"

#include "kernels/product/tile_product.h"
#include "quant/base/parallel.h"

#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::column_product {

constexpr int64_t kWidth = 128;

HWY_INLINE V Values(const float* w, size_t count) { return hn::LoadN(D(), w, count); }
template <class T>
HWY_INLINE V Values(const T* w, size_t count) {
  return hn::PromoteTo(D(), hn::LoadN(hn::Rebind<T, D>(), w, count));
}

// b [depth, kWidth] of n columns of w.
template <class T>
void Widen(const T* w, int64_t stride, int64_t depth, size_t n, float* b) {
  for (int64_t k = 0; k < depth; ++k, w += stride, b += kWidth)
    ForVectors(n, [&](size_t i, size_t count) HWY_ATTR { hn::StoreN(Values(w + i, count), D(), b + i, count); });
}

// b [depth / 2, kWidth]: pairs of bf16, one below the other in w.
void Pair(const uint16_t* w, int64_t stride, int64_t depth, size_t n, uint32_t* b) {
  const hn::RebindToUnsigned<D> d;
  const hn::Rebind<uint16_t, D> d16;
  for (int64_t k = 0; k < depth; k += 2, w += 2 * stride, b += kWidth) {
    ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
      const auto upper = hn::PromoteTo(d, hn::LoadN(d16, w + i, count));
      const auto lower = k + 1 < depth ? hn::PromoteTo(d, hn::LoadN(d16, w + stride + i, count)) : hn::Zero(d);
      hn::StoreN(hn::Or(upper, hn::ShiftLeft<16>(lower)), d, b + i, count);
    });
  }
}

// The factor of n columns from value `at` of W^T on.
void MakeFactor(const DenseMatrix* w, Math math, int64_t at, int64_t depth, size_t n, float* b) {
  const auto from = [&]<class T>(const T*) { return static_cast<const T*>(w->data) + at; };
  if (math == Math::kBf16) return Pair(from((uint16_t*){}), w->out, depth, n, reinterpret_cast<uint32_t*>(b));
  if (w->type == WeightType::kF32) return Widen(from((float*){}), w->out, depth, n, b);
  if (w->type == WeightType::kBf16) return Widen(from((hwy::bfloat16_t*){}), w->out, depth, n, b);
  Widen(from((hwy::float16_t*){}), w->out, depth, n, b);
}

}  // namespace HWY_NAMESPACE::column_product
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void ColumnProduct(const Projection& p, Math math, const void* x, int64_t rows) {
  // A factor, of pairs twice as deep, takes 120 KB: 1 or 2 % faster than 96 or 480 rows, or a width of 64.
  constexpr int64_t kWidth = HWY_NAMESPACE::column_product::kWidth, kDepth = 240, kRows = 512;
  const DenseMatrix& w = p.weight;
  const bool pairs = math == Math::kBf16;
  const int64_t x_bytes = pairs ? 2 : 4, w_bytes = static_cast<int64_t>(ElementBytes(w.type));
  const int64_t pieces = std::max<int64_t>(1, CeilDiv(w.in, pairs ? 2 * kDepth : kDepth)),
                depth = RoundUp(CeilDiv(w.in, pieces), 2), panels = CeilDiv(w.out, kWidth);
  ParallelFor(static_cast<size_t>(panels * CeilDiv(rows, kRows)), [&](size_t unit, int) {
    const ProductScope tiles;
    const int64_t column = static_cast<int64_t>(unit) % panels * kWidth, n = std::min(kWidth, w.out - column);
    const int64_t row = static_cast<int64_t>(unit) / panels * kRows, m = std::min(kRows, rows - row);
    thread_local AlignedBuffer<float> factor, sums;  // [depth, kWidth] [m, kWidth]
    factor.Reserve(static_cast<size_t>(depth * kWidth));
    sums.Reserve(static_cast<size_t>(m * kWidth));
    for (float* of_row = sums.data(); of_row < sums.data() + m * kWidth; of_row += kWidth)
      p.bias == nullptr ? std::fill_n(of_row, n, 0.0f) : std::copy_n(p.bias + column, n, of_row);
    for (int64_t k = 0; k < w.in; k += depth) {
      const int64_t deep = std::min(depth, w.in - k), at = k * w.out + column;
      TARE_CHOSEN(column_product::MakeFactor)(&w, math, at, deep, static_cast<size_t>(n), factor.data());
      const int64_t next = k + depth < w.in ? at + depth * w.out : column + kWidth;  // of this panel, or another
      const char* ask = static_cast<const char*>(w.data) + next * w_bytes;
      for (int64_t i = 0; i < depth; ++i, ask += w.out * w_bytes) {
        for (int64_t line = 0; line < n * w_bytes; line += 64) __builtin_prefetch(ask + line, 0, 2);
      }
      const TileProduct product({pairs ? ProductTypes::kBf16 : ProductTypes::kF32, static_cast<int>(m),
                                 static_cast<int>(n), static_cast<int>(deep), w.in, kWidth, kWidth,
                                 ProductStore::kAdd});
      product.Run(static_cast<const char*>(x) + (row * w.in + k) * x_bytes, factor.data(), sums.data());
    }
    for (int64_t r = 0; r < m; ++r) std::copy_n(sums.data() + r * kWidth, n, p.y + (row + r) * w.out + column);
  });
}

}  // namespace tare
#endif
