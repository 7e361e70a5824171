// SPDX-License-Identifier: Apache-2.0
// I8mmProduct of tile_product.h. One instruction multiplies two rows of A by two columns of B over 8 of K; a register
// tile is 8 rows by 8 columns.
#include "kernels/product/tile_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#define TARE_I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#endif

namespace tare {

#if defined(__aarch64__)

namespace {

constexpr int kColumns = 8, kDepth = 8, kGroup = 4;

TARE_I8MM inline int32x4_t Multiply(int32x4_t sum, uint8x16_t rows, int8x16_t columns, std::false_type) {
  return vusmmlaq_s32(sum, rows, columns);
}
TARE_I8MM inline int32x4_t Multiply(int32x4_t sum, uint8x16_t rows, int8x16_t columns, std::true_type) {
  return vmmlaq_s32(sum, vreinterpretq_s8_u8(rows), columns);
}

// Sums of two columns in row 2 p, then in row 2 p + 1.
template <int kPairs>
using Sums = int32x4_t[kPairs][kColumns / 2];

// kOfK of K, a whole step or its first group: rows [2 kPairs], b [kOfK / 4][ldb][4].
template <class Signed, int kPairs, int kOfK>
TARE_I8MM inline void Step(const uint8_t* const* rows, int k, const int8_t* b, int64_t ldb, Sums<kPairs>& sum) {
  int32x4_t columns[kColumns / 2];
  for (int i = 0; i < 2; ++i) {
    const int8_t* const group = b + 16 * i;  // of four columns
    const int32x4_t low = vreinterpretq_s32_s8(vld1q_s8(group));
    const int32x4_t high = kOfK == kDepth ? vreinterpretq_s32_s8(vld1q_s8(group + kGroup * ldb)) : vdupq_n_s32(0);
    columns[2 * i] = vzip1q_s32(low, high);
    columns[2 * i + 1] = vzip2q_s32(low, high);
  }
  for (int p = 0; p < kPairs; ++p) {
    uint64_t codes[2] = {};
    for (int r = 0; r < 2; ++r) std::memcpy(codes + r, rows[2 * p + r] + k, kOfK);
    const uint8x16_t pair = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(codes[0]), vcreate_u64(codes[1])));
    for (int i = 0; i < kColumns / 2; ++i)
      sum[p][i] = Multiply(sum[p][i], pair, vreinterpretq_s8_s32(columns[i]), Signed());
  }
}

// Rows first .. first + 2 kPairs - 1 of C, the last of all again where there are fewer, and 8 columns.
template <class Signed, int kPairs>
TARE_I8MM void Square(const ProductShape& s, int first, const uint8_t* a, const int8_t* b, int32_t* c) {
  const uint8_t* rows[2 * kPairs];
  for (int r = 0; r < 2 * kPairs; ++r) rows[r] = a + std::min(first + r, s.m - 1) * s.lda;
  Sums<kPairs> sum;
  for (auto& pair : sum) std::fill_n(pair, kColumns / 2, vdupq_n_s32(0));
  int k = 0;
  for (; k + kGroup < s.k; k += kDepth) Step<Signed, kPairs, kDepth>(rows, k, b + k * s.ldb, s.ldb, sum);
  if (k < s.k) Step<Signed, kPairs, kGroup>(rows, k, b + k * s.ldb, s.ldb, sum);
  for (int r = 0; r < std::min(2 * kPairs, s.m - first); ++r) {
    for (int i = 0; i < kColumns / 2; i += 2) {
      const auto of_row = [&](int32x4_t two) { return r % 2 == 0 ? vget_low_s32(two) : vget_high_s32(two); };
      int32_t* const to = c + (first + r) * s.ldc + 2 * i;
      const int32x4_t four = vcombine_s32(of_row(sum[r / 2][i]), of_row(sum[r / 2][i + 1]));
      vst1q_s32(to, s.store == ProductStore::kAdd ? vaddq_s32(vld1q_s32(to), four) : four);
    }
  }
}

template <class Signed>
void Product(const ProductShape& s, const uint8_t* a, const int8_t* b, int32_t* c) {
  for (int j = 0; j < s.n; j += kColumns) {
    int r = 0;
    for (; r + 2 < s.m; r += 8) Square<Signed, 4>(s, r, a, b + kGroup * j, c + j);
    for (; r < s.m; r += 2) Square<Signed, 1>(s, r, a, b + kGroup * j, c + j);
  }
}

}  // namespace

bool I8mmTakes(const ProductShape& s) {
  static const bool has = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  return has && (s.types == ProductTypes::kU8S8 || s.types == ProductTypes::kS8S8) && s.n % kColumns == 0;
}

void I8mmProduct(const ProductShape& s, const void* a, const void* b, void* c) {
  const auto* rows = static_cast<const uint8_t*>(a);
  const auto* groups = static_cast<const int8_t*>(b);
  auto* sums = static_cast<int32_t*>(c);
  if (s.types == ProductTypes::kS8S8)
    Product<std::true_type>(s, rows, groups, sums);
  else
    Product<std::false_type>(s, rows, groups, sums);
}

#else

bool I8mmTakes(const ProductShape&) { return false; }
void I8mmProduct(const ProductShape&, const void*, const void*, void*) { std::unreachable(); }

#endif

}  // namespace tare
