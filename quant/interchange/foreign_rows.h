// SPDX-License-Identifier: Apache-2.0
// Some rows of another tool's matrix: those of one expert, where the matrix holds all experts of a layer.
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
  int64_t bytes() const override {
    return whole_.bytes() / whole_.out() * out() + whole_.bytes() % whole_.out() * out() / whole_.out();
  }
  // All of the matrix.
  void Release() const override { whole_.Release(); }

 private:
  const ForeignMatrix& whole_;
  int64_t first_;
};

}  // namespace tare
