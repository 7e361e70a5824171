// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] as another tool quantized it, in that tool's own layout, or whose values are stored in
// another order. It gives rows of f32: what the scheme's own reference computes, with scales taken to f32 first. Where
// the scheme allows, it gives the same values as integer codes, too. What holds it keeps the file mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "quant/format/integer_form.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

class ForeignMatrix {
 public:
  ForeignMatrix(int64_t out, int64_t in) : out_(out), in_(in) {}
  virtual ~ForeignMatrix() = default;
  ForeignMatrix(const ForeignMatrix&) = delete;
  ForeignMatrix& operator=(const ForeignMatrix&) = delete;

  int64_t out() const { return out_; }
  int64_t in() const { return in_; }

  // Row `row`: y holds `in` values, all finite. Throws Error with file and tensor where the file's bytes make no finite
  // value. May be called from several threads.
  virtual void Row(int64_t row, float* y) const = 0;
  // The same for `count` rows from `first` on; y [count, in].
  virtual void Rows(int64_t first, int64_t count, float* y) const {
    for (int64_t r = 0; r < count; ++r) Row(first + r, y + r * in());
  }
  // Its values where they are stored as they are, but by columns.
  struct Columns {
    enum class Type { kF32, kBf16, kF16 };
    const std::byte* values;  // [in, out], not aligned
    Type type;
  };
  // Throws Error as Row does; nullopt if they are not stored so.
  virtual std::optional<Columns> columns() const { return std::nullopt; }
  // "GGUF Q4_K", "GPTQ int4/group128": what messages and tables call it.
  virtual std::string scheme() const = 0;
  // False where its values are stored as they are, of the type that scheme() names.
  virtual bool HasCodes() const { return true; }
  // How integer codes stand for these values; empty if none do.
  virtual std::optional<IntegerForm> integers() const { return std::nullopt; }
  // Which column of W each column of these codes is, where their groups are not its neighbours; empty: the same.
  virtual std::span<const int32_t> order() const { return {}; }
  // One row of them. Only where integers() is not empty; else as Row.
  virtual void Integers(int64_t row, const IntegerRow& to) const;
  // The scale by which the tool rounds what W multiplies, where the file has one for all of it.
  virtual std::optional<float> input_scale() const { return std::nullopt; }
  // As stored: codes, scales, zero points.
  virtual int64_t bytes() const = 0;
  // Gives back the memory under it; touching it reads it again.
  virtual void Release() const = 0;

 private:
  int64_t out_, in_;
};

// All rows as integer codes, in memory. Only where integers() is not empty. Throws Error as Row does.
QuantizedMatrixBuffer IntegersOf(const ForeignMatrix& matrix);

// Matrices of one scheme.
struct SchemeTotals {
  int64_t matrices = 0, values = 0, bytes = 0;
  double BitsPerWeight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
};
using SchemesInUse = std::map<std::string, SchemeTotals>;

}  // namespace tare
