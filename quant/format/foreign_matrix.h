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

#include "quant/format/format.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Integer codes that stand for the values of a matrix that another tool quantized, so that integer kernels take it
// (quant/format/quantized_matrix.h). They are the same numbers, value for value; only a zero may have another sign.
// Scales may be negative: GGUF's Q4_0, AutoRound and MLX have such ones.
struct IntegerForm {
  Format format = Format::kInt8;  // int8, int6 or int4, of any range of codes
  int64_t group = 0;              // neighbouring inputs that share a scale
  friend bool operator==(const IntegerForm&, const IntegerForm&) = default;
};

// Where one row of such a matrix goes.
struct IntegerRow {
  float* codes;    // [in]
  float* scales;   // [groups]
  uint8_t* zeros;  // [groups], of +zero; else null
  float* minima;   // [groups], of +min; else null
};

// The narrowest format whose codes are these and all between; empty: more than 8 bits.
std::optional<Format> SignedFormat(float least, float most);
// As SignedFormat, for codes from 0, with a zero point or a minimum.
std::optional<Format> RangedFormat(float most, CodeRange range);

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
  // As Row, for `count` rows from `first` on; y [count, in].
  virtual void Rows(int64_t first, int64_t count, float* y) const {
    for (int64_t r = 0; r < count; ++r) Row(first + r, y + r * in());
  }
  // The matrix's values where they are stored as they are, but by columns.
  struct Columns {
    enum class Type { kF32, kBf16, kF16 };
    const std::byte* values;  // [in, out], not aligned
    Type type;
  };
  // Throws Error as Row does; nullopt if the values are not stored so.
  virtual std::optional<Columns> columns() const { return std::nullopt; }
  // "GGUF Q4_K", "GPTQ int4/group128": what messages and tables call it.
  virtual std::string scheme() const = 0;
  // False where its values are stored as they are, of the type that scheme() names.
  virtual bool HasCodes() const { return true; }
  // How integer codes stand for these values; empty if none do.
  virtual std::optional<IntegerForm> integers() const { return std::nullopt; }
  // Which column of W each column of these codes is, where their groups are not its neighbours; empty: the same.
  virtual std::span<const int32_t> order() const { return {}; }
  // Writes one row of these codes. Only where integers() is not empty; in all else as Row.
  virtual void Integers(int64_t row, const IntegerRow& to) const;
  // The scale by which the tool rounds what W multiplies, where the file has one for all of it.
  virtual std::optional<float> input_scale() const { return std::nullopt; }
  // The bytes stored: codes, scales, zero points.
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
