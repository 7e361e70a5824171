// SPDX-License-Identifier: Apache-2.0
// Some rows of another tool's matrix, seen as a matrix: parts of a tensor that holds several linear layers' weights one
// below another.
#pragma once

#include <string>

#include "quant/interchange/foreign_matrix.h"

namespace tare {

class RowRange : public ForeignMatrix {
 public:
  // whole outlives this and has rows [first, first + count).
  RowRange(const ForeignMatrix& whole, int64_t first, int64_t count)
      : ForeignMatrix(count, whole.in()), whole_(whole), first_(first) {}

  void Row(int64_t row, float* y) const override { whole_.Row(first_ + row, y); }
  std::string scheme() const override { return whole_.scheme(); }
  bool HasCodes() const override { return whole_.HasCodes(); }
  // A share by rows, such that those of all parts are the whole's.
  int64_t bytes() const override { return BytesUpTo(first_ + out()) - BytesUpTo(first_); }
  void Release() const override { whole_.Release(); }

 private:
  int64_t BytesUpTo(int64_t row) const;

  const ForeignMatrix& whole_;
  int64_t first_;
};

}  // namespace tare
