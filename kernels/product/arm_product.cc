// SPDX-License-Identifier: Apache-2.0
// ArmProduct of tile_product.h; a register tile is 8 rows by 8 columns. One instruction of i8mm
// multiplies two rows of A by two columns of B over 8 of K, one of sdot a row by four columns over 4.
#include "kernels/product/tile_product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#define TARE_I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#define TARE_SDOT __attribute__((target("arch=armv8.2-a+dotprod")))
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

void Put(const ProductShape& s, int32x4_t four, int32_t* c) {
  vst1q_s32(c, s.store == ProductStore::kAdd ? vaddq_s32(vld1q_s32(c), four) : four);
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
      Put(s, vcombine_s32(of_row(sum[r / 2][i]), of_row(sum[r / 2][i + 1])), c + (first + r) * s.ldc + 2 * i);
    }
  }
}

// One group of K in lane kLane of each row's four: sum [kRows][8 columns].
template <int kLane, int kRows>
TARE_SDOT inline void Group(const int8x16_t (&rows)[kRows], const int8_t* b, int32x4_t (&sum)[kRows][2]) {
  for (int i = 0; i < 2; ++i) {
    const int8x16_t columns = vld1q_s8(b + 16 * i);
    for (int r = 0; r < kRows; ++r) sum[r][i] = vdotq_laneq_s32(sum[r][i], columns, rows[r], kLane);
  }
}

// As Square, up to kRows rows. sdot takes signed bytes: unsigned A less 128, and a row of -128 for what this lacks.
template <class Signed, int kRows>
TARE_SDOT void DotSquare(const ProductShape& s, int first, const uint8_t* a, const int8_t* b, int32_t* c) {
  constexpr int kAll = kRows + !Signed::value;
  const uint8_t* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = a + std::min(first + r, s.m - 1) * s.lda;
  int8x16_t codes[kAll];
  codes[kAll - 1] = vdupq_n_s8(-128);
  int32x4_t sum[kAll][2];
  for (auto& row : sum) std::fill_n(row, 2, vdupq_n_s32(0));
  const auto read = [&](int k, int bytes) {
    for (int r = 0; r < kRows; ++r) {
      uint8_t of_row[16] = {};
      std::memcpy(of_row, rows[r] + k, bytes);
      codes[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(of_row), vdupq_n_u8(Signed::value ? 0 : 128)));
    }
  };
  int k = 0;
  for (; k + 16 <= s.k; k += 16, b += 16 * s.ldb) {
    read(k, 16);
    Group<0>(codes, b, sum);
    Group<1>(codes, b + kGroup * s.ldb, sum);
    Group<2>(codes, b + 2 * kGroup * s.ldb, sum);
    Group<3>(codes, b + 3 * kGroup * s.ldb, sum);
  }
  for (; k < s.k; k += kGroup, b += kGroup * s.ldb) {
    read(k, kGroup);
    Group<0>(codes, b, sum);
  }
  for (int r = 0; r < std::min(kRows, s.m - first); ++r) {
    for (int i = 0; i < 2; ++i)
      Put(s, Signed::value ? sum[r][i] : sum[r][i] - sum[kAll - 1][i], c + (first + r) * s.ldc + 4 * i);
  }
}

using Part = void(const ProductShape&, int first, const uint8_t* a, const int8_t* b, int32_t* c);

// The parts of eight rows and of two, by ArmUnit and by whether A is signed.
constexpr Part* kParts[2][2][2] = {
    {{Square<std::false_type, 4>, Square<std::false_type, 1>}, {Square<std::true_type, 4>, Square<std::true_type, 1>}},
    {{DotSquare<std::false_type, 8>, DotSquare<std::false_type, 2>},
     {DotSquare<std::true_type, 8>, DotSquare<std::true_type, 2>}}};

}  // namespace

bool Has(ArmUnit unit) {
  return (unit == ArmUnit::kI8mm ? getauxval(AT_HWCAP2) & HWCAP2_I8MM : getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

bool ArmTakes(ArmUnit unit, const ProductShape& s) {
  return Has(unit) && (s.types == ProductTypes::kU8S8 || s.types == ProductTypes::kS8S8) && s.n % kColumns == 0;
}

void ArmProduct(ArmUnit unit, const ProductShape& s, const void* a, const void* b, void* c) {
  Part* const(&parts)[2] = kParts[static_cast<int>(unit)][s.types == ProductTypes::kS8S8];
  for (int j = 0; j < s.n; j += kColumns) {
    for (int r = 0; r < s.m; r += s.m - r > 2 ? 8 : 2)
      parts[s.m - r > 2 ? 0 : 1](s, r, static_cast<const uint8_t*>(a), static_cast<const int8_t*>(b) + kGroup * j,
                                 static_cast<int32_t*>(c) + j);
  }
}

#else

bool Has(ArmUnit) { return false; }
bool ArmTakes(ArmUnit, const ProductShape&) { return false; }
void ArmProduct(ArmUnit, const ProductShape&, const void*, const void*, void*) { std::unreachable(); }

#endif

}  // namespace tare
