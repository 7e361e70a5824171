// SPDX-License-Identifier: Apache-2.0
// Sums of rows times a matrix, for algorithms that round some rows of a matrix together, one column after another:
//
//   sums[j][r] += sum over k of m[k][j] x[k][r]
//
// The rows r are the lanes of vectors: a factor x [k] and a sum are kRowsTogether values, one of each row. The matrix
// lies in panels of kPanel columns, [k][kPanel] each. Products are added one after another by fused multiply-adds, so a
// sum is bit for bit that of a loop of std::fma over k, on any instruction set and however the k are cut into calls.
// Processors without them (x86 before 2013) compute them in software, very slowly.
#pragma once

#include <cstdint>

#include "quant/base/aligned.h"

namespace tare {

inline constexpr int64_t kPanel = 8;          // columns; with these rows, the sums fill the registers of AVX-512
inline constexpr int64_t kRowsTogether = 32;  // share a reading of the matrix, which no cache holds
inline constexpr int64_t kColumnsLater =
    128;  // whose x (16 KB) and part of a panel (4 KB) stay in a core's first cache

struct Range {
  int64_t begin, end;
};

// A matrix [n, n] in panels; rows and columns beyond n are zeros.
class Panels {
 public:
  enum class Shape { kUpper, kFull };  // kUpper: a panel holds the rows to the end of its part of the diagonal alone

  Panels() = default;
  // from: row-major.
  Panels(Shape shape, int64_t n, const float* from);

  int64_t count() const { return CountOf(n_); }
  // Values of an x or of sums, by column, to the end of the last panel.
  static size_t ValuesFor(int64_t n) { return static_cast<size_t>(CountOf(n) * kPanel * kRowsTogether); }
  // As many zeros.
  static AlignedBuffer<float> Zeros(int64_t n);
  // m[k][column].
  float At(int64_t k, int64_t column) const { return Row(column / kPanel, k)[column % kPanel]; }

  // The sums of these panels' columns, over these k, which the panels hold; x and sums of ValuesFor(n) values, on
  // boundaries of 64 bytes.
  void AddProducts(Range k, Range panels, const float* x, float* sums) const;

 private:
  static int64_t CountOf(int64_t n) { return (n + kPanel - 1) / kPanel; }
  int64_t RowsOf(int64_t p) const { return shape_ == Shape::kFull ? count() * kPanel : (p + 1) * kPanel; }
  // Rows of all panels before p.
  int64_t Before(int64_t p) const { return shape_ == Shape::kFull ? p * count() * kPanel : p * (p + 1) / 2 * kPanel; }
  // Row k of a panel: [kPanel]. Rows lie one behind the other.
  const float* Row(int64_t p, int64_t k) const { return values_.data() + (Before(p) + k) * kPanel; }

  Shape shape_ = Shape::kFull;
  int64_t n_ = 0;
  AlignedBuffer<float> values_;
};

}  // namespace tare
