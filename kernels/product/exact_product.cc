// SPDX-License-Identifier: Apache-2.0
// See exact_product.h. A register tile is 4 rows by 2 vectors of columns; one step multiplies a group of K (1 f32, 4
// bytes, 2 bf16) by a vector of B.
#include "kernels/product/exact_product.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product/exact_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each type: what a 32-bit lane of B holds (kGroup values of K, kBytes each) and how a group is accumulated.
struct F32 {
  using Sum = float;
  static constexpr int kGroup = 1;
  template <class D, class V>
  static V Step(D /*d*/, uint32_t a, V b, V sum) {
    const hn::Repartition<float, D> df;
    return hn::MulAdd(hn::BitCast(df, hn::Set(hn::RebindToUnsigned<D>(), a)), b, sum);
  }
};

template <typename A>  // uint8_t or int8_t
struct Bytes {
  using Sum = int32_t;
  static constexpr int kGroup = 4;
  template <class D, class V>
  static V Step(D d, uint32_t a, V b, V sum) {
    const auto group = hn::BitCast(hn::Repartition<A, D>(), hn::Set(hn::RebindToUnsigned<D>(), a));
    return hn::SumOfMulQuadAccumulate(d, group, hn::BitCast(hn::Repartition<int8_t, D>(), b), sum);
  }
};

struct Bf16 {
  using Sum = float;
  static constexpr int kGroup = 2;
  template <class D, class V>
  static V Step(D d, uint32_t a, V b, V sum) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, b);
    const auto high = hn::Set(du, 0xffff0000u);
    sum = hn::MulAdd(hn::BitCast(d, hn::Set(du, a << 16)), hn::BitCast(d, hn::ShiftLeft<16>(bits)), sum);
    return hn::MulAdd(hn::BitCast(d, hn::Set(du, a & 0xffff0000u)), hn::BitCast(d, hn::And(bits, high)), sum);
  }
};

template <class Types, int kRows>
void RowTile(const ProductShape& s, const uint8_t* a, const typename Types::Sum* b, typename Types::Sum* c) {
  using Sum = typename Types::Sum;
  const hn::ScalableTag<Sum> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const int groups = (s.k + Types::kGroup - 1) / Types::kGroup;
  const int64_t row_bytes = s.lda * 4 / Types::kGroup;
  for (int n = 0; n < s.n; n += lanes) {
    const size_t columns = std::min(lanes, s.n - n);
    hn::Vec<decltype(d)> sum[kRows];
    for (int r = 0; r < kRows; ++r)
      sum[r] = s.store == ProductStore::kAdd ? hn::LoadN(d, c + r * s.ldc + n, columns) : hn::Zero(d);
    for (int g = 0; g < groups; ++g) {
      const auto column = hn::LoadN(d, b + g * s.ldb + n, columns);
      for (int r = 0; r < kRows; ++r) {
        uint32_t group;
        std::memcpy(&group, a + r * row_bytes + 4 * g, 4);
        sum[r] = Types::Step(d, group, column, sum[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) hn::StoreN(sum[r], d, c + r * s.ldc + n, columns);
  }
}

template <class Types>
void Product(const ProductShape& s, const void* a, const void* b, void* c) {
  using Sum = typename Types::Sum;
  const auto* rows = static_cast<const uint8_t*>(a);
  auto* sums = static_cast<Sum*>(c);
  const int64_t row_bytes = s.lda * 4 / Types::kGroup;
  int r = 0;
  for (; r + 4 <= s.m; r += 4) RowTile<Types, 4>(s, rows + r * row_bytes, static_cast<const Sum*>(b), sums + r * s.ldc);
  for (; r < s.m; ++r) RowTile<Types, 1>(s, rows + r * row_bytes, static_cast<const Sum*>(b), sums + r * s.ldc);
}

void ProductOfTypes(const ProductShape& s, const void* a, const void* b, void* c) {
  switch (s.types) {
    case ProductTypes::kF32:
      return Product<F32>(s, a, b, c);
    case ProductTypes::kU8S8:
      return Product<Bytes<uint8_t>>(s, a, b, c);
    case ProductTypes::kS8S8:
      return Product<Bytes<int8_t>>(s, a, b, c);
    case ProductTypes::kBf16:
      return Product<Bf16>(s, a, b, c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

HWY_EXPORT(ProductOfTypes);

void ExactProduct(const ProductShape& shape, const void* a, const void* b, void* c) {
  HWY_DYNAMIC_DISPATCH(ProductOfTypes)(shape, a, b, c);
}

}  // namespace tare
#endif
