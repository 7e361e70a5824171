// SPDX-License-Identifier: Apache-2.0
// A weight matrix W [out, in] as codes and scales: value = value of the code * scale; integers with a zero point: (code
// - zero) * scale, with a minimum: code * scale + minimum (round.h). A scale belongs to `group` neighbouring inputs of
// an output, for "channel" all. A format's blocks need not divide a row: the last may be short, as if padded with 0.
// Codes may be of W R, R a Hadamard rotation of inputs (hadamard.h), and of what two thin factors leave of W.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/format/format.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {

class Hadamard;

// A low-rank branch, up down, in bf16: values of W are those of its codes and these.
struct LowRank {
  const uint16_t* up = nullptr;    // [out][rank]
  const uint16_t* down = nullptr;  // [rank][in]
  int64_t rank = 0;                // 0: there is none
};

// A view; codes are stored as in pack.h, row by row.
struct QuantizedMatrix {
  const uint8_t* codes = nullptr;        // [out][RowBytes()]
  const float* scales = nullptr;         // [out][Groups()]; or, if the format's scales are formats themselves,
  const uint8_t* scale_codes = nullptr;  // [out][Groups()], pack.h, times of_tensor
  float of_tensor = 1;                   // the f32 per tensor, if the format has one
  const uint8_t* zeros = nullptr;        // [out][Groups()], of +zero
  const float* minima = nullptr;         // [out][Groups()], of +min
  Format format = Format::kInt8;         // not u8, u6 or u4
  int64_t out = 0, in = 0;
  int64_t group = 0;  // divides in, or is the format's block
  // R, if the codes are of W R (a plan's +hadamard): a row's values are those of its codes times R^T.
  const Hadamard* rotation = nullptr;
  LowRank branch = {};  // of W, not of W R

  int64_t Groups() const { return (in + group - 1) / group; }
  int64_t GroupEnd(int64_t g) const { return std::min((g + 1) * group, in); }
  float ScaleOf(int64_t row, int64_t g) const;
  // Whether the codes of a group of IF4 are of sevenths (grid.h).
  bool IsEven(int64_t row, int64_t g) const {
    return format.scale == ScaleType::kTwoLevelSigned && scale_codes[row * Groups() + g] >= 128;
  }
  float ZeroOf(int64_t row, int64_t g) const { return zeros == nullptr ? 0.0f : zeros[row * Groups() + g]; }
  float MinimumOf(int64_t row, int64_t g) const { return minima == nullptr ? 0.0f : minima[row * Groups() + g]; }
  size_t RowBytes() const;
  size_t Bytes() const;  // of codes, scales, zero points and minima, also where there are none yet, and of the branch
};

// Values that share a scale of a weight: for channel and tensor all of `in` (a tensor's is repeated per output).
int64_t GroupOf(Granularity granularity, int64_t in);

// Throws Error unless format, sizes and group fit together. Does not read codes or scales.
void CheckShape(const QuantizedMatrix& matrix, const std::string& where);

// Throws Error for a part that the format has and the matrix does not point to: codes, scales, zero points, minima.
void CheckData(const QuantizedMatrix& matrix, const std::string& where);

// Throws Error, naming `where`, row and group, for a scale that is NaN, or overflows f32 times the format's largest
// value, for a zero point that is no code, and for a minimum from which a value overflows. Scales of Tare's own
// quantizers are 0 or more; other tools have negative ones, and all that reads codes takes them.
void CheckScales(const QuantizedMatrix& matrix, int64_t row, const std::string& where);

// What a row's codes stand for before the scale: `in` values. Throws Error for a code that the format does not have.
void UnpackRow(const QuantizedMatrix& matrix, int64_t row, std::span<float> values);

// Row `row` as f32 [in], all finite. Throws Error as CheckScales, and for a code that the format does not have.
void DequantizeRow(const QuantizedMatrix& matrix, int64_t row, float* y, const std::string& where = "weights");

// A matrix that owns its memory, which is not initialised.
class QuantizedMatrixBuffer {
 public:
  QuantizedMatrixBuffer() = default;
  // tensor_absmax: the largest magnitude, if the format has an f32 per tensor. rotation: of what will be rounded.
  QuantizedMatrixBuffer(Format format, int64_t out, int64_t in, int64_t group, float tensor_absmax = 0,
                        const Hadamard* rotation = nullptr);
  // The rows of the parts below each other, which must be alike but for their number.
  explicit QuantizedMatrixBuffer(std::span<const QuantizedMatrix* const> parts);

  const QuantizedMatrix& view() const { return view_; }
  float tensor_absmax() const { return tensor_absmax_; }
  uint8_t* Codes(int64_t row) { return codes_.data() + static_cast<size_t>(row) * view_.RowBytes(); }
  // Stores and returns a group's scale, zero point or minimum. Throws Error for ranges beyond f32, and no such place.
  GroupScale SetScale(int64_t row, int64_t g, Ends ends);
  float* Scales(int64_t row) { return scales_.data() + row * view_.Groups(); }  // if they are f32
  uint8_t* Zeros(int64_t row) { return zeros_.data() + row * view_.Groups(); }  // if the format has them
  float* Minima(int64_t row) { return minima_.data() + row * view_.Groups(); }  // likewise
  // up [out, rank] and down [rank, in].
  void SetBranch(std::vector<uint16_t> up, std::vector<uint16_t> down);
  size_t code_bytes() const { return codes_.size(); }
  size_t scale_count() const { return scales_.size(); }

 private:
  AlignedBuffer<uint8_t> codes_, scale_codes_, zeros_;
  AlignedBuffer<float> scales_, minima_;
  std::vector<uint16_t> up_, down_;
  float tensor_absmax_ = 0;
  QuantizedMatrix view_;
};

// ---- A weight matrix W [out, in] as another tool quantized it, in that tool's own layout, or whose values are stored
// in another order. It gives rows of f32: what the scheme's own reference computes, with scales taken to f32 first.
// Where the scheme allows, it gives the same values as integer codes, too. What holds it keeps the file mapped.

// Integer codes for a matrix that another tool quantized, so that integer kernels take it: the same numbers, but for a
// zero's sign. Scales may be negative (GGUF's Q4_0, AutoRound, MLX).
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

// The narrowest format, of the first range that does, with all codes between these; empty: more than 8 bits.
std::optional<Format> NarrowestFormat(float least, float most, std::initializer_list<CodeRange> ranges);

class ForeignMatrix {
 public:
  ForeignMatrix(int64_t out, int64_t in) : out_(out), in_(in) {}
  virtual ~ForeignMatrix() = default;
  ForeignMatrix(const ForeignMatrix&) = delete;
  ForeignMatrix& operator=(const ForeignMatrix&) = delete;

  int64_t out() const { return out_; }
  int64_t in() const { return in_; }

  // Row `row`: y [in], all finite. Throws Error with file and tensor where bytes make no finite value. Thread-safe.
  virtual void Row(int64_t row, float* y) const = 0;
  // As Row, for `count` rows from `first` on; y [count, in].
  virtual void Rows(int64_t first, int64_t count, float* y) const {
    for (int64_t r = 0; r < count; ++r) Row(first + r, y + r * in());
  }
  // Row's values as codes, if all rows lie as NibbleRow says and are finite; valid until the thread asks for a row of
  // this or another matrix.
  virtual std::optional<NibbleRow> Nibbles(int64_t /*row*/) const { return std::nullopt; }
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

struct SchemeTotals {
  int64_t matrices = 0, values = 0, bytes = 0;
  double BitsPerWeight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
};
using SchemesInUse = std::map<std::string, SchemeTotals>;

}  // namespace tare
