// SPDX-License-Identifier: Apache-2.0
// Matrices stored as parts of larger ones: rows of another tool's matrix, or one matrix of a tensor [count, in, out].
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Rows of one expert, where a matrix holds all of a layer, or of one of several linear layers stored one below another.
class ForeignRows : public ForeignMatrix {
 public:
  // Rows [first, first + count) of `whole`, which outlives this.
  ForeignRows(const ForeignMatrix& whole, int64_t first, int64_t count)
      : ForeignMatrix(count, whole.in()), whole_(whole), first_(first) {
    TARE_CHECK(0 <= first && 0 < count && first + count <= whole.out());
  }

  void Row(int64_t row, float* y) const override { whole_.Row(first_ + row, y); }
  std::optional<NibbleRow> Nibbles(int64_t row) const override { return whole_.Nibbles(first_ + row); }
  std::string scheme() const override { return whole_.scheme(); }
  bool HasCodes() const override { return whole_.HasCodes(); }
  std::optional<IntegerForm> integers() const override { return whole_.integers(); }
  std::span<const int32_t> order() const override { return whole_.order(); }
  void Integers(int64_t row, const IntegerRow& to) const override { whole_.Integers(first_ + row, to); }
  std::optional<float> input_scale() const override { return whole_.input_scale(); }
  // A share of the whole's bytes by rows: the shares of all parts add up to the whole.
  int64_t bytes() const override { return BytesUpTo(first_ + out()) - BytesUpTo(first_); }
  // Releases all of the matrix.
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

// Matrix `index` of a tensor [count, in, out], as gpt-oss stores its experts', seen as [out, in].
class TransposedMatrix : public ForeignMatrix {
 public:
  // Throws Error unless the tensor, which outlives this, is f32, bf16 or f16. release gives back the memory under it.
  TransposedMatrix(const TensorView& tensor, int64_t index, std::function<void()> release);

  void Row(int64_t row, float* y) const override { Rows(row, 1, y); }
  // Neighbours stand side by side in the tensor: many cost little more to read than one.
  void Rows(int64_t first, int64_t count, float* y) const override;
  // The values, searched once for any that is not finite.
  std::optional<Columns> columns() const override;
  std::string scheme() const override { return std::string(Name(tensor_.dtype)); }
  bool HasCodes() const override { return false; }
  int64_t bytes() const override { return static_cast<int64_t>(tensor_.bytes.size()) / tensor_.shape[0]; }
  void Release() const override { release_(); }

 private:
  TensorView tensor_;
  int64_t first_;  // value of the matrix in the tensor
  std::function<void()> release_;
  mutable std::once_flag looked_through_;
};

}  // namespace tare
