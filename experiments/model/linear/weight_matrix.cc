// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/weight_matrix.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/elementwise/rows.h"
#include "kernels/linear/packed_matrix.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

// The ends of the whole matrix. The mean over rows of equal length is the mean of their means.
Ends EndsOfMatrix(int64_t out, int64_t in, const ReadRow& read, Format format) {
  std::vector<Ends> of_rows(static_cast<size_t>(out));
  ParallelFor(of_rows.size(), [&](size_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(in));
    read(static_cast<int64_t>(row), values.data());
    of_rows[row] = EndsOf(values, format);
  });
  return EndsOfAll(of_rows, format);
}

// Makes memory a matrix: calls fill(first row, count, where these rows go) from several threads.
DenseMatrix FillRows(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                     const std::function<void(int64_t, int64_t, float*)>& fill) {
  memory.Reserve(static_cast<size_t>(out * in) * ElementBytes(type));
  char* data = memory.data();
  constexpr int64_t kRows = 32;  // neighbours, which may share words of the file: on one thread
  ParallelForBlocks(out, kRows, [&](int64_t first, int64_t count) {
    char* const target = data + static_cast<size_t>(first * in) * ElementBytes(type);
    if (type != WeightType::kBf16) return fill(first, count, reinterpret_cast<float*>(target));
    std::vector<float> values(static_cast<size_t>(count * in));
    fill(first, count, values.data());
    ToBf16(values.data(), values.size(), reinterpret_cast<uint16_t*>(target));
  });
  return {data, type, out, in};
}

}  // namespace

bool WeightMatrix::HasIntegers() const {
  if (quantized != nullptr || foreign == nullptr) return quantized != nullptr;
  const std::optional<IntegerForm> form = foreign->integers();
  return form && PackedMatrix::Takes({.format = form->format, .out = out, .in = in, .group = form->group});
}

void RowAsFloat(const WeightMatrix& matrix, int64_t row, float* y, const std::string& where) {
  RowsAsFloat(matrix, row, 1, y, where);
}

void RowsAsFloat(const WeightMatrix& matrix, int64_t first, int64_t count, float* y, const std::string& where) {
  const auto n = static_cast<size_t>(count * matrix.in);
  if (matrix.values.data == nullptr) {
    if (const ForeignMatrix* const foreign = matrix.foreign; foreign != nullptr) {
      for (int64_t r = 0; r < count; ++r) {
        const std::optional<NibbleRow> row = foreign->Nibbles(first + r);
        if (!row) return foreign->Rows(first, count, y);
        FromNibbles(*row, static_cast<size_t>(matrix.in), y + r * matrix.in);
      }
      return;
    }
    for (int64_t r = 0; r < count; ++r) DequantizeRow(*matrix.quantized, first + r, y + r * matrix.in, where);
    return;
  }
  const WeightType type = matrix.values.type;
  const auto* bytes = static_cast<const std::byte*>(matrix.values.data) + first * matrix.in * ElementBytes(type);
  if (type == WeightType::kF32) return std::memcpy(y, bytes, n * sizeof(float)), void();
  const auto read = [&](auto value) {  // a loop each, which compilers make vectors of
    for (size_t i = 0; i < n; ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes + 2 * i, 2);
      y[i] = value(bits);
    }
  };
  if (type == WeightType::kBf16) return read([](uint16_t bits) { return FloatFromBf16(bits); });
  read([](uint16_t bits) { return FloatFromF16(bits); });
}

DenseMatrix FillMatrix(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                       const std::function<void(int64_t, float*)>& fill) {
  return FillRows(memory, type, out, in, [&](int64_t first, int64_t count, float* values) {
    for (int64_t r = 0; r < count; ++r) fill(first + r, values + r * in);
  });
}

DenseMatrix InFloat(const WeightMatrix& matrix, Math math, AlignedBuffer<char>& memory, const std::string& where) {
  return FillRows(memory, FactorType(math), matrix.out, matrix.in,
                  [&](int64_t first, int64_t count, float* y) { RowsAsFloat(matrix, first, count, y, where); });
}

void AddBranch(const QuantizedMatrix& matrix, const float* x, int64_t rows, float* y) {
  const LowRank& branch = matrix.branch;
  const DenseMatrix down{branch.down, WeightType::kBf16, branch.rank, matrix.in},
      up{branch.up, WeightType::kBf16, matrix.out, branch.rank};
  ParallelFor(static_cast<size_t>(rows), [&](int64_t row, int) {
    thread_local std::vector<float> inner, outer;
    inner.resize(static_cast<size_t>(branch.rank));
    outer.resize(static_cast<size_t>(matrix.out));
    RowProduct(down, Math::kF32, x + row * matrix.in, nullptr, inner.data());
    RowProduct(up, Math::kF32, inner.data(), nullptr, outer.data());
    for (int64_t i = 0; i < matrix.out; ++i) y[row * matrix.out + i] += outer[static_cast<size_t>(i)];
  });
}

std::optional<DenseMatrix> StoredColumns(const WeightMatrix& matrix, const Projector& projector) {
  if (matrix.values.data != nullptr || matrix.foreign == nullptr) return std::nullopt;
  const std::optional<ForeignMatrix::Columns> columns = matrix.foreign->columns();
  if (!columns) return std::nullopt;
  using Stored = ForeignMatrix::Columns::Type;
  const DenseMatrix stored{.data = columns->values,
                           .type = columns->type == Stored::kF32    ? WeightType::kF32
                                   : columns->type == Stored::kBf16 ? WeightType::kBf16
                                                                    : WeightType::kF16,
                           .out = matrix.out,
                           .in = matrix.in,
                           .order = WeightOrder::kColumns};
  const bool aligned = reinterpret_cast<uintptr_t>(stored.data) % ElementBytes(stored.type) == 0;
  const bool taken = WeightMatrix(stored).IsReady(projector.math()) &&
                     projector.IsNative(stored.type, stored.out, stored.in, stored.order);
  return aligned && taken ? std::optional(stored) : std::nullopt;
}

QuantizedMatrixBuffer MatrixFor(const Rule& rule, int64_t out, int64_t in, const ReadRow& read) {
  const float absmax = IsTwoLevel(rule.format.scale) ? EndsOfMatrix(out, in, read, rule.format).high : 0.0f;
  return {rule.format, out, in, GroupOf(rule.granularity, in), absmax, rule.options.Rotation(in)};
}

ReadRow RowsToRound(const Rule& rule, int64_t in, ReadRow read) {
  const Hadamard* const rotation = rule.options.Rotation(in);
  if (rotation == nullptr) return read;
  return [rotation, read = std::move(read)](int64_t row, float* values) {
    read(row, values);
    rotation->Rotate(values, values);
  };
}

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where,
                                     std::span<const float> importance) {
  const ReadRow read =
      RowsToRound(rule, weight.in, [&](int64_t row, float* values) { RowAsFloat(weight, row, values); });
  QuantizedMatrixBuffer matrix = MatrixFor(rule, weight.out, weight.in, read);
  const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
  GroupEnds ends = [&](int64_t, int64_t g, const float* values, int64_t n) {
    const float* const factors =
        importance.empty() ? nullptr : &importance[static_cast<size_t>(g * matrix.view().group)];
    return ChooseEnds(values, n, rule.format, choice, matrix.tensor_absmax(), factors);
  };
  if (rule.granularity.kind == Granularity::Kind::kTensor)  // one scale
    ends = [all = EndsOfMatrix(weight.out, weight.in, read, rule.format)](auto...) { return all; };
  ParallelFor(static_cast<size_t>(weight.out), [&](int64_t row, int) {
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(weight.in));
    read(row, values.data());
    try {
      RoundRowToNearest(values.data(), ends, matrix, row);
    } catch (const Error& error) {
      Fail("{}: {}", where, error.what());
    }
  });
  return matrix;
}

}  // namespace tare
