// SPDX-License-Identifier: Apache-2.0
// ExactProduct of tile_product.h, in tiles of 4 rows by 2 vectors; a step: a group of K (1 f32, 4 bytes, 2 bf16).
#include "kernels/product/tile_product.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product/exact_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE {

// By type: a 32-bit lane holds kGroup values of K, of A or B; Step multiplies them in kParts parts, wide as needed.
struct F32 {
  using Sum = float;
  static constexpr int kGroup = 1, kParts = 1;
  template <bool kOfA, class V>
  static void Split(V group, V* parts) {
    parts[0] = group;
  }
  template <class D, class V>
  static V Step(D d, uint32_t a, V b, V sum) {
    return hn::MulAdd(hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), a)), b, sum);
  }
};

// Bytes 0 and 2 of a group as pairs of 16 bits, then 1 and 3: their products' sum always fits, where the instruction
// that multiplies bytes before VNNI (vpmaddubsw) saturates at 16 bits. With VNNI the ukernel serves them.
template <typename A>  // uint8_t or int8_t
struct Bytes {
  using Sum = int32_t;
  static constexpr int kGroup = 4, kParts = 2;
  template <bool kOfA, class V>
  static void Split(V group, V* parts) {
    using Wide = std::conditional_t<kOfA && std::is_unsigned_v<A>, uint16_t, int16_t>;
    const hn::DFromV<V> d;
    const auto bytes = hn::BitCast(hn::Repartition<Wide, decltype(d)>(), group);
    parts[0] = hn::BitCast(d, hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes)));
    parts[1] = hn::BitCast(d, hn::ShiftRight<8>(bytes));
  }
  template <class D, class V>
  static V Step(D d, uint32_t a, V b, V sum) {
    const hn::Repartition<int16_t, D> d16;
    const auto pairs = hn::BitCast(d16, hn::Set(hn::RebindToUnsigned<D>(), a));
    return hn::Add(sum, hn::WidenMulPairwiseAdd(d, pairs, hn::BitCast(d16, b)));
  }
};

struct Bf16 {
  using Sum = float;
  static constexpr int kGroup = 2, kParts = 2;
  template <bool kOfA, class V>
  static void Split(V group, V* parts) {
    const hn::DFromV<V> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto bits = hn::BitCast(du, group);
    parts[0] = hn::BitCast(d, hn::ShiftLeft<16>(bits));
    parts[1] = hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)));
  }
  template <class D, class V>
  static V Step(D d, uint32_t a, V b, V sum) {
    return F32::Step(d, a, b, sum);
  }
};

// Groups of K whose parts of A are made at once, for all columns.
constexpr int kGroupsTogether = 64;

template <class Types, int kRows>
using Parts = uint32_t[kRows][Types::kParts][kGroupsTogether];

// a [kRows][row_bytes], groups in them.
template <class Types, int kRows>
void SplitRows(const uint8_t* a, int64_t row_bytes, int groups, Parts<Types, kRows>& parts) {
  const hn::ScalableTag<typename Types::Sum> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < groups; g += lanes) {
      const auto count = static_cast<size_t>(std::min(lanes, groups - g));
      const auto* from = reinterpret_cast<const typename Types::Sum*>(a + r * row_bytes) + g;
      hn::Vec<decltype(d)> split[Types::kParts];
      Types::template Split<true>(hn::LoadN(d, from, count), split);
      for (int p = 0; p < Types::kParts; ++p)
        hn::StoreU(split[p], d, reinterpret_cast<typename Types::Sum*>(parts[r][p] + g));
    }
  }
}

// kRows rows by kVectors vectors of columns of C, over some groups of K. b [groups][ldb], c [kRows][ldc].
template <class Types, int kRows, int kVectors>
void Tile(const Parts<Types, kRows>& a, int groups, const typename Types::Sum* b, int64_t ldb, ProductStore store,
          typename Types::Sum* c, int64_t ldc) {
  const hn::ScalableTag<typename Types::Sum> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using Vector = hn::Vec<decltype(d)>;
  Vector sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = store == ProductStore::kAdd ? hn::LoadU(d, c + r * ldc + v * lanes) : hn::Zero(d);
  }
  for (int g = 0; g < groups; ++g) {
    Vector parts[kVectors][Types::kParts];
    for (int v = 0; v < kVectors; ++v) Types::template Split<false>(hn::LoadU(d, b + g * ldb + v * lanes), parts[v]);
    for (int r = 0; r < kRows; ++r) {
      for (int part = 0; part < Types::kParts; ++part) {
        for (int v = 0; v < kVectors; ++v) sum[r][v] = Types::Step(d, a[r][part][g], parts[v][part], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, c + r * ldc + v * lanes);
  }
}

// The columns after the last whole vector, through copies that are one.
template <class Types, int kRows>
void TileOfLast(const Parts<Types, kRows>& a, int groups, const typename Types::Sum* b, int64_t ldb, ProductStore store,
                typename Types::Sum* c, int64_t ldc, size_t columns) {
  const hn::ScalableTag<typename Types::Sum> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN typename Types::Sum b_whole[kGroupsTogether * HWY_MAX_LANES_D(decltype(d))];
  HWY_ALIGN typename Types::Sum c_whole[kRows * HWY_MAX_LANES_D(decltype(d))];
  for (int g = 0; g < groups; ++g) hn::StoreU(hn::LoadN(d, b + g * ldb, columns), d, b_whole + g * lanes);
  for (int r = 0; r < kRows; ++r) hn::StoreU(hn::LoadN(d, c + r * ldc, columns), d, c_whole + r * lanes);
  const auto whole = static_cast<int64_t>(lanes);
  Tile<Types, kRows, 1>(a, groups, b_whole, whole, store, c_whole, whole);
  for (int r = 0; r < kRows; ++r) hn::StoreN(hn::LoadU(d, c_whole + r * lanes), d, c + r * ldc, columns);
}

template <class Types, int kRows>
void Rows(const ProductShape& s, const uint8_t* a, const typename Types::Sum* b, typename Types::Sum* c) {
  const auto lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<typename Types::Sum>()));
  const int groups = (s.k + Types::kGroup - 1) / Types::kGroup;
  const int64_t row_bytes = s.lda * 4 / Types::kGroup;
  ProductStore store = s.store;
  for (int first = 0; first < groups; first += kGroupsTogether) {
    const int count = std::min(kGroupsTogether, groups - first);
    HWY_ALIGN Parts<Types, kRows> parts;
    SplitRows<Types, kRows>(a + 4 * first, row_bytes, count, parts);
    const auto* from = b + first * s.ldb;
    int n = 0;
    for (; n + 2 * lanes <= s.n; n += 2 * lanes)
      Tile<Types, kRows, 2>(parts, count, from + n, s.ldb, store, c + n, s.ldc);
    for (; n + lanes <= s.n; n += lanes) Tile<Types, kRows, 1>(parts, count, from + n, s.ldb, store, c + n, s.ldc);
    if (n < s.n)
      TileOfLast<Types, kRows>(parts, count, from + n, s.ldb, store, c + n, s.ldc, static_cast<size_t>(s.n - n));
    store = ProductStore::kAdd;
  }
}

template <class Types>
void Product(const ProductShape& s, const void* a, const void* b, void* c) {
  using Sum = typename Types::Sum;
  const auto* rows = static_cast<const uint8_t*>(a);
  auto* sums = static_cast<Sum*>(c);
  const int64_t row_bytes = s.lda * 4 / Types::kGroup;
  int r = 0;
  for (; r + 4 <= s.m; r += 4) Rows<Types, 4>(s, rows + r * row_bytes, static_cast<const Sum*>(b), sums + r * s.ldc);
  for (; r < s.m; ++r) Rows<Types, 1>(s, rows + r * row_bytes, static_cast<const Sum*>(b), sums + r * s.ldc);
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

void ExactProduct(const ProductShape& shape, const void* a, const void* b, void* c) {
  TARE_CHOSEN(ProductOfTypes)(shape, a, b, c);
}

}  // namespace tare
#endif
