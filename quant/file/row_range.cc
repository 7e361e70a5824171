// SPDX-License-Identifier: Apache-2.0
#include "quant/file/row_range.h"

namespace tare {

// bytes * row / out, without an overflow of the product.
int64_t RowRange::BytesUpTo(int64_t row) const {
  const int64_t each = whole_.bytes() / whole_.out(), rest = whole_.bytes() % whole_.out();
  return each * row + rest * row / whole_.out();
}

}  // namespace tare
