// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tensors by their Hugging Face names, checked for shape, type and finiteness as they are taken.
// Matrices stay where the file is mapped, in the type they are stored in; only what is quantized, what the machine
// cannot multiply, or --math bf16 wants otherwise, is converted into memory of our own (and the file's pages are given
// back).
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"
#include "quant/file/checkpoint.h"

namespace tare {

class Weights {
 public:
  // Of a checkpoint folder or a quantized checkpoint.
  Weights(const std::filesystem::path& path, const Projector& projector);

  // W [out, in]. Throws Error where it is missing, misshapen, neither quantized nor of type f32, bf16 or f16, or not
  // finite.
  WeightMatrix Matrix(const std::string& name, int64_t out, int64_t in);
  // The same without conversion, whatever the projector wants and however it is aligned: for RowAsFloat alone.
  WeightMatrix Stored(const std::string& name, int64_t out, int64_t in);
  // A small tensor as f32.
  std::vector<float> Vector(const std::string& name, const std::vector<int64_t>& shape);

  bool Has(const std::string& name) const { return files_.Has(name); }
  bool SameBytes(const std::string& a, const std::string& b) const;
  // Takes a tensor's name off the list of those nobody asked for.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Throws Error if the checkpoint has a tensor that the model did not take: what is not understood is not ignored.
  void CheckAllTaken() const;

  const Checkpoint& files() const { return files_; }

 private:
  const TensorView& Take(const std::string& name, const std::vector<int64_t>& shape);
  WeightMatrix Converted(const TensorView& tensor, WeightType to, int64_t out, int64_t in);
  WeightMatrix Dequantized(const std::string& name, const QuantizedMatrix& matrix, WeightType to);

  std::string where_;  // the folder or file, for messages
  Checkpoint files_;
  const Projector& projector_;
  std::set<std::string> taken_;
  std::vector<AlignedBuffer<char>> converted_;
};

// A stored tensor where it lies: a matrix, or a vector as one of a column, aligned or not: for RowAsFloat. Throws
// Error, beginning with `where`, for other shapes and for types other than f32, bf16 and f16.
WeightMatrix StoredMatrix(const TensorView& tensor, const std::string& where);

// Resets memory to a matrix of f32 or bf16, filled row by row: fill(row, values of the row), from several threads.
WeightMatrix FillMatrix(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                        const std::function<void(int64_t row, float* values)>& fill);

// Row `row` of W as f32: y holds W.in values.
void RowAsFloat(const WeightMatrix& matrix, int64_t row, float* y);

}  // namespace tare
