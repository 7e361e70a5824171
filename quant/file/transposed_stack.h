// SPDX-License-Identifier: Apache-2.0
// Matrices that a checkpoint stores as one tensor [count, in, out], as gpt-oss does its experts', seen as one matrix
// [count out, in]: rows of the first, then of the second.
#pragma once

#include <functional>
#include <string>

#include "quant/file/safetensors.h"
#include "quant/interchange/foreign_matrix.h"

namespace tare {

class TransposedStack : public ForeignMatrix {
 public:
  // Of f32, bf16 or f16; throws Error for others. release gives back the memory under the tensor, which outlives this.
  TransposedStack(const TensorView& tensor, std::function<void()> release);

  void Row(int64_t row, float* y) const override;
  std::string scheme() const override { return std::string(Name(tensor_.dtype)); }
  bool HasCodes() const override { return false; }
  int64_t bytes() const override { return static_cast<int64_t>(tensor_.bytes.size()); }
  void Release() const override { release_(); }

 private:
  TensorView tensor_;
  std::function<void()> release_;
};

}  // namespace tare
