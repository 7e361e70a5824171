// SPDX-License-Identifier: Apache-2.0
// A matrix of codes and scales in Python: made by tare.quantize, or a weight of an open checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quant/format/quantized_matrix.h"

namespace tare {

struct Quantized {
  QuantizedMatrix matrix;
  std::vector<int64_t> shape;  // of the values; the last dimension is a row
  std::shared_ptr<const void> owner;
};

}  // namespace tare
