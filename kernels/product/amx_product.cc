// SPDX-License-Identifier: Apache-2.0
// AmxProduct of tile_product.h. 32 x 32 of C in four tiles, A and B in two each: eight, all that there are.
#include "kernels/product/tile_product.h"

#include <array>
#include <atomic>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#define TARE_AMX __attribute__((target("amx-tile,amx-int8")))
#endif

namespace tare {
namespace {

constexpr int kTileRows = 16, kTileBytes = 64;  // of a tile: 16 rows of A or C, 16 columns of B or C, 64 codes deep

}  // namespace

bool AmxTakes(const ProductShape& s) {
  const bool bytes = s.types == ProductTypes::kU8S8 || s.types == ProductTypes::kS8S8;
  return bytes && s.m % kTileRows == 0 && s.n % (2 * kTileRows) == 0 && s.k % kTileBytes == 0;
}

#if defined(__x86_64__)

namespace {

// What ldtilecfg reads; the same for A, B and C.
struct Palette {
  uint8_t id = 1, start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{};
  std::array<uint8_t, 16> rows{};
};

constexpr Palette WholeTiles() {
  Palette palette;
  for (size_t i = 0; i < 8; ++i) palette.row_bytes[i] = kTileBytes, palette.rows[i] = kTileRows;
  return palette;
}

// Static: compilers know of the first bytes alone that the instruction reads.
alignas(64) constexpr Palette kPalette = WholeTiles();

// C's two tiles side by side, or four; k > 0.
template <bool kSigned, int kRowTiles>
TARE_AMX void Square(const ProductShape& s, const uint8_t* a, const int8_t* b, int32_t* c) {
  const int64_t row = s.lda, group = s.ldb * 4, c_row = s.ldc * 4;
  int32_t* below = c + kTileRows * s.ldc;
  if (s.store == ProductStore::kOverwrite) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kRowTiles == 2) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, c, c_row);
    _tile_loadd(1, c + kTileRows, c_row);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(2, below, c_row);
      _tile_loadd(3, below + kTileRows, c_row);
    }
  }
  for (int depth = 0; depth < s.k; depth += kTileBytes, a += kTileBytes, b += kTileRows * group) {
    _tile_loadd(4, a, row);
    _tile_loadd(6, b, group);
    _tile_loadd(7, b + kTileBytes, group);
    if constexpr (kSigned) {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
    }
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, a + kTileRows * row, row);
      if constexpr (kSigned) {
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
      } else {
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
    }
  }
  _tile_stored(0, c, c_row);
  _tile_stored(1, c + kTileRows, c_row);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, below, c_row);
    _tile_stored(3, below + kTileRows, c_row);
  }
}

template <bool kSigned>
void Product(const ProductShape& s, const uint8_t* a, const int8_t* b, int32_t* c) {
  for (int i = 0; i < s.m; i += 2 * kTileRows) {
    for (int j = 0; j < s.n; j += 2 * kTileRows) {
      if (i + kTileRows < s.m)
        Square<kSigned, 2>(s, a + i * s.lda, b + 4 * j, c + i * s.ldc + j);
      else
        Square<kSigned, 1>(s, a + i * s.lda, b + 4 * j, c + i * s.ldc + j);
    }
  }
}

}  // namespace

TARE_AMX void LoadAmxTiles() { _tile_loadconfig(&kPalette); }
TARE_AMX void ReleaseAmxTiles() { _tile_release(); }

void AmxProduct(const ProductShape& s, const void* a, const void* b, void* c) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // not every compiler knows that loading a tile reads memory
  const auto* rows = static_cast<const uint8_t*>(a);
  const auto* groups = static_cast<const int8_t*>(b);
  auto* sums = static_cast<int32_t*>(c);
  if (s.types == ProductTypes::kS8S8)
    Product<true>(s, rows, groups, sums);
  else
    Product<false>(s, rows, groups, sums);
}

#else

void LoadAmxTiles() {}
void ReleaseAmxTiles() {}
void AmxProduct(const ProductShape&, const void*, const void*, void*) { std::unreachable(); }

#endif

}  // namespace tare
