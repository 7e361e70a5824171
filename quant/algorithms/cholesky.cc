// SPDX-License-Identifier: Apache-2.0
// Products of two tiles, the tiles of a matrix, one tile's factor, solution and inverse, whole matrices tile by tile.
#include "quant/algorithms/second_moments.h"

#include <algorithm>
#include <cmath>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/base/widest_vectors.h"

namespace tare {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kRows = 4;                // of a tile, at work together
constexpr int64_t kValues = kTile * kTile;  // of a tile

template <int kBytes>
struct DoublesOf {
  typedef double Vector __attribute__((vector_size(kBytes), may_alias));
};

// c [kTile, kTile] -= a b. a is [kTile / kRows][kTile of the sum][kRows], b and c row-major; products are subtracted
// one by one, so that register width does not show (none is fused: -ffp-contract=off). Eight sums: at twice a
// register's width they overflow AVX2's sixteen (a layer of 7 G parameters on a Zen 3: 153 s, four fifths here).
template <int kBytes>
TARE_INTO_CALLER inline void SubtractTile(const double* a, const double* b, double* c) {
  using Vector = typename DoublesOf<kBytes>::Vector;
  constexpr auto kColumns = static_cast<int64_t>(2 * sizeof(Vector) / sizeof(double));
  for (int64_t row = 0; row < kTile; row += kRows) {
    for (int64_t column = 0; column < kTile; column += kColumns) {
      Vector sums[kRows][2];
      for (int64_t r = 0; r < kRows; ++r) {
        const auto* from = reinterpret_cast<const Vector*>(c + (row + r) * kTile + column);
        sums[r][0] = from[0];
        sums[r][1] = from[1];
      }
      const double* x = a + row * kTile;
      for (int64_t k = 0; k < kTile; ++k, x += kRows) {
        const auto* y = reinterpret_cast<const Vector*>(b + k * kTile + column);
        for (int64_t r = 0; r < kRows; ++r) {
          sums[r][0] -= x[r] * y[0];
          sums[r][1] -= x[r] * y[1];
        }
      }
      for (int64_t r = 0; r < kRows; ++r) {
        auto* to = reinterpret_cast<Vector*>(c + (row + r) * kTile + column);
        to[0] = sums[r][0];
        to[1] = sums[r][1];
      }
    }
  }
}

void Subtract(const double* a, const double* b, double* c) {
  InWidestVectors([&]<int kBytes>() TARE_INTO_CALLER { SubtractTile<kBytes>(a, b, c); });
}

// Where a tile has a value of row r and column c: by rows, by columns, and as the first operand of SubtractTile.
constexpr int64_t ByRows(int64_t r, int64_t c) { return r * kTile + c; }
constexpr int64_t ByColumns(int64_t r, int64_t c) { return c * kTile + r; }
constexpr int64_t AsFirst(int64_t r, int64_t c) { return r / kRows * kRows * kTile + c * kRows + r % kRows; }

// The matrix in tiles; those at its ends are filled up with zeros.
class Tiles {
 public:
  Tiles(int64_t n, const float* a) : n_(n), a_(a) {}

  int64_t Count() const { return (n_ + kTile - 1) / kTile; }
  int64_t Size(int64_t i) const { return std::min(kTile, n_ - i * kTile); }

  // Tile (i, j); of one on the diagonal the lower triangle.
  template <int64_t (*kAt)(int64_t r, int64_t c) = ByRows>
  void Read(int64_t i, int64_t j, double* to) const {
    const int64_t rows = Size(i), columns = Size(j);
    if (rows < kTile || columns < kTile || i == j) std::fill_n(to, kValues, 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = a_ + (i * kTile + r) * n_ + j * kTile;
      for (int64_t c = 0; c < (i == j ? r + 1 : columns); ++c) to[kAt(r, c)] = double{from[c]};
    }
  }
  // The lower triangle of a tile on the diagonal, else all of it.
  void Write(int64_t i, int64_t j, const double* from, float* a) const {
    for (int64_t r = 0; r < Size(i); ++r) {
      float* to = a + (i * kTile + r) * n_ + j * kTile;
      for (int64_t c = 0; c < (i == j ? r + 1 : Size(j)); ++c) to[c] = static_cast<float>(from[r * kTile + c]);
    }
  }

 private:
  int64_t n_;
  const float* a_;
};

// The diagonal tile's factor; false if a pivot is not a positive number.
bool FactorTile(int64_t size, double* a) {
  for (int64_t j = 0; j < size; ++j) {
    double* const row = a + j * kTile;
    for (int64_t k = 0; k < j; ++k) row[j] -= row[k] * row[k];
    if (!(row[j] > 0.0) || !std::isfinite(row[j])) return false;
    row[j] = std::sqrt(row[j]);
    for (int64_t i = j + 1; i < size; ++i) {
      double* const other = a + i * kTile;
      for (int64_t k = 0; k < j; ++k) other[j] -= other[k] * row[k];
      other[j] /= row[j];
    }
  }
  return true;
}

// Rows of c become those of c L^-T.
void SolveTile(int64_t rows, int64_t size, const double* lower, double* c) {
  for (int64_t r = 0; r < rows; ++r) {
    double* const row = c + r * kTile;
    for (int64_t j = 0; j < size; ++j) {
      for (int64_t k = 0; k < j; ++k) row[j] -= row[k] * lower[j * kTile + k];
      row[j] /= lower[j * kTile + j];
    }
  }
}

// The inverse of a lower triangle, column by column, and 0 above.
void InvertTile(int64_t size, const double* lower, double* inverse) {
  std::fill_n(inverse, kValues, 0.0);
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t i = j; i < size; ++i) {
      double sum = i == j ? 1.0 : 0.0;
      for (int64_t k = j; k < i; ++k) sum -= lower[i * kTile + k] * inverse[k * kTile + j];
      inverse[i * kTile + j] = sum / lower[i * kTile + i];
    }
  }
}

// A row-major tile as the first operand of SubtractTile.
void ToFirst(const double* from, double* to) {
  for (int64_t r = 0; r < kTile; ++r) {
    for (int64_t c = 0; c < kTile; ++c) to[AsFirst(r, c)] = from[r * kTile + c];
  }
}

using Buffer = AlignedBuffer<double>;

Buffer& ThreadBuffer(int64_t tiles) {
  thread_local Buffer buffer;
  if (static_cast<int64_t>(buffer.size()) < tiles * kValues) buffer.Reset(static_cast<size_t>(tiles * kValues));
  return buffer;
}

}  // namespace

// Column by column of tiles: what earlier columns subtract from a tile is summed in double and rounded once.
void FactorInPlace(int64_t n, float* a, const std::string& where) {
  Tiles tiles(n, a);
  const int64_t count = tiles.Count();
  Buffer turned(static_cast<size_t>(count * kValues)), diagonal(kValues);  // turned: row j's tiles, columns first
  const auto less = [&](int64_t i, int64_t j, double* c, double* first) {
    tiles.Read(i, j, c);
    for (int64_t k = 0; k < j; ++k) {
      tiles.Read<AsFirst>(i, k, first);
      Subtract(first, turned.data() + k * kValues, c);
    }
  };
  for (int64_t j = 0; j < count; ++j) {
    ParallelFor(static_cast<size_t>(j), [&](size_t k, int) {
      tiles.Read<ByColumns>(j, static_cast<int64_t>(k), turned.data() + static_cast<int64_t>(k) * kValues);
    });
    less(j, j, diagonal.data(), ThreadBuffer(2).data());
    if (!FactorTile(tiles.Size(j), diagonal.data()))
      Fail(
          "{}: the calibration's second moments are not positive definite; try a longer calibration text, or a larger "
          "damping",
          where);
    tiles.Write(j, j, diagonal.data(), a);
    ParallelFor(static_cast<size_t>(count - j - 1), [&](size_t below, int) {
      const int64_t i = j + 1 + static_cast<int64_t>(below);
      double* const c = ThreadBuffer(2).data();
      less(i, j, c, c + kValues);
      SolveTile(tiles.Size(i), tiles.Size(j), diagonal.data(), c);
      tiles.Write(i, j, c, a);
    });
  }
}

// Row by row of tiles: X_ij = -L_ii^-1 (sum over k from j to i - 1 of L_ik X_kj), the rows above being done.
void InvertInPlace(int64_t n, float* lower) {
  Tiles tiles(n, lower);
  const int64_t count = tiles.Count();
  Buffer row(static_cast<size_t>(count * kValues)), diagonal(kValues), inverse(kValues), first(kValues);
  for (int64_t i = 0; i < count; ++i) {
    ParallelFor(static_cast<size_t>(i), [&](size_t k, int) {
      tiles.Read<AsFirst>(i, static_cast<int64_t>(k), row.data() + static_cast<int64_t>(k) * kValues);
    });
    tiles.Read(i, i, diagonal.data());
    InvertTile(tiles.Size(i), diagonal.data(), inverse.data());
    tiles.Write(i, i, inverse.data(), lower);
    ToFirst(inverse.data(), first.data());
    ParallelFor(static_cast<size_t>(i), [&](size_t column, int) {
      const auto j = static_cast<int64_t>(column);
      double *const sum = ThreadBuffer(3).data(), *const x = sum + kValues, *const done = x + kValues;
      std::fill_n(sum, kValues, 0.0);
      for (int64_t k = j; k < i; ++k) {
        tiles.Read(k, j, x);
        Subtract(row.data() + k * kValues, x, sum);
      }
      std::fill_n(done, kValues, 0.0);
      for (int64_t v = 0; v < kValues; ++v) sum[v] = -sum[v];  // subtract took away what is to be added
      Subtract(first.data(), sum, done);
      tiles.Write(i, j, done, lower);
    });
  }
}

// Some rows at a time: p = c L^-T and then p L^-1, each tile the sum over the tiles that are not 0.
void MultiplyByInverse(int64_t n, const float* inverse, int64_t rows, float* c) {
  const Tiles tiles(n, inverse);
  const int64_t count = tiles.Count();
  ParallelForBlocks(rows, kTile, [&](int64_t first, int64_t here) {
    double* const given = ThreadBuffer(2 * count + 2).data();  // c, then p, as first operands, tile by tile
    double *const p = given + count * kValues, *const sum = p + count * kValues, *const x = sum + kValues;
    std::fill_n(given, count * kValues, 0.0);
    for (int64_t r = 0; r < here; ++r) {
      const float* const row = c + (first + r) * n;
      for (int64_t i = 0; i < n; ++i) given[i / kTile * kValues + AsFirst(r, i % kTile)] = double{row[i]};
    }
    for (int64_t j = 0; j < count; ++j) {
      std::fill_n(sum, kValues, 0.0);
      for (int64_t k = 0; k <= j; ++k) {
        tiles.Read<ByColumns>(j, k, x);
        Subtract(given + k * kValues, x, sum);
      }
      ToFirst(sum, p + j * kValues);  // -p: the second product takes the sign away again
    }
    for (int64_t j = 0; j < count; ++j) {
      std::fill_n(sum, kValues, 0.0);
      for (int64_t k = j; k < count; ++k) {
        tiles.Read(k, j, x);
        Subtract(p + k * kValues, x, sum);
      }
      for (int64_t r = 0; r < here; ++r) {
        float* const row = c + (first + r) * n + j * kTile;
        for (int64_t i = 0; i < tiles.Size(j); ++i) row[i] = static_cast<float>(sum[r * kTile + i]);
      }
    }
  });
}

}  // namespace tare
