// SPDX-License-Identifier: Apache-2.0
// Some rows of another tool's matrix, seen as a matrix: one expert's, where it holds all experts of a layer, or those
// of one of several linear layers whose weights are stored one below another.
#pragma once

#include "quant/base/error.h"
#include "quant/interchange/foreign_matrix.h"

namespace tare {

class ForeignRows : public ForeignMatrix {
 public:
  // Rows [first, first + count) of `whole`, which outlives this.
  ForeignRows(const ForeignMatrix& whole, int64_t first, int64_t count)
      : ForeignMatrix(count, whole.in()), whole_(whole), first_(first) {
    TARE_CHECK(0 <= first && 0 < count && first + count <= whole.out());
  }

  void Row(int64_t row, float* y) const override { whole_.Row(first_ + row, y); }
  std::string scheme() const override { return whole_.scheme(); }
  bool HasCodes() const override { return whole_.HasCodes(); }
  std::optional<IntegerForm> integers() const override { return whole_.integers(); }
  std::span<const int32_t> order() const override { return whole_.order(); }
  void Integers(int64_t row, const IntegerRow& to) const override { whole_.Integers(first_ + row, to); }
  std::optional<float> input_scale() const override { return whole_.input_scale(); }
  // A share by rows, such that those of all parts are the whole's.
  int64_t bytes() const override { return BytesUpTo(first_ + out()) - BytesUpTo(first_); }
  // All of the matrix.
  void Release() const override { whole_.Release(); }

 private:
  // bytes * row / out, without an overflow of the product.
  int64_t BytesUpTo(int64_t row) const {
    const int64_t each = whole_.bytes() / whole_.out(), rest = whole_.bytes() % whole_.out();
    return each * row + rest * row / whole_.out();
  }

  const ForeignMatrix& whole_;
  int64_t first_;
};

}  // namespace tare
