// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tensors by Hugging Face names, checked for shape, type and finite values. Matrices stay mapped in
// their type; types the machine cannot multiply, quantized matrices and, under --math bf16, all but bf16 are converted
// (the file's pages are then released) if all these together are small; else for each call.
//
// A stored tensor may hold several linear layers' weights or biases, one below another (LinearPlace::fused), or all
// experts' (LinearPlace::stacked, or MLX's). All else sees one tensor per linear layer and expert, in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/model/config/family.h"
#include "experiments/model/linear/weight_matrix.h"
#include "kernels/linear/projector.h"
#include "quant/base/aligned.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {

// Splits the checkpoint's fused tensors. A checkpoint that holds the parts, as quantized ones do, stays as it is.
void SplitFused(const ModelConfig& config, Checkpoint& files);

// Opens the checkpoint and splits its fused tensors.
Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config);

// A fused tensor as stored, and the rows, or columns, of its parts. FusedTensors lists the tensors of all layers.
struct FusedTensor {
  std::string name;
  std::vector<Checkpoint::Rows> parts;
  int64_t rows_of_columns = 0;  // of a tensor whose parts are columns; 0: they are rows
};
std::vector<FusedTensor> FusedTensors(const ModelConfig& config);

// A tensor of all experts of a layer: NAME [experts, in, out], NAME_bias [experts, out].
struct StackedTensor {
  std::string name;
  MatrixShape shape;                 // of an expert's matrix
  std::vector<std::string> experts;  // what its parts are called, without ".weight" and ".bias"

  Checkpoint::Experts Parts(std::string_view suffix) const;
};
std::vector<StackedTensor> StackedTensors(const ModelConfig& config);

// kWhole: tensors are read once and checked when taken. kKnown: matrices are checked already (ReadWhole), read when
// used. kShapes: matrices are neither read nor converted, as nothing is computed.
enum class WeightReading : uint8_t { kWhole, kKnown, kShapes };

class Weights {
 public:
  // 1 GiB as f32.
  static constexpr int64_t kMostKept = int64_t{1} << 28;

  // Opens a checkpoint folder or a quantized checkpoint. Converted copies of at most most_kept values are kept.
  Weights(const std::filesystem::path& path, const Projector& projector, int64_t most_kept = kMostKept,
          WeightReading reading = WeightReading::kWhole, Shards shards = Shards::kAll);

  // W [out, in]. Throws Error if it is missing, misshapen, not finite, or neither quantized nor of type f32, bf16 or
  // f16. A matrix that is not kept in the type of products is not ready for them (WeightMatrix::IsReady).
  WeightMatrix Matrix(const std::string& name, int64_t out, int64_t in);
  // As Matrix, but as stored, without conversion or alignment: only for RowAsFloat.
  WeightMatrix Stored(const std::string& name, int64_t out, int64_t in);
  // W [shape[0], product of the others].
  DenseMatrix Flattened(const std::string& name, const std::vector<int64_t>& shape);
  // A small tensor as f32; a matrix may be in another tool's codes.
  std::vector<float> Vector(const std::string& name, const std::vector<int64_t>& shape);

  // Shows the rows of fused tensors as tensors (SplitFused).
  Weights& Split(const ModelConfig& config);

  bool Has(const std::string& name) const { return files_.Has(name); }
  // Whether two tensors, or another tool's codes, are the same; under kShapes, which reads none, whether they may be.
  bool SameBytes(const std::string& a, const std::string& b) const;
  // Removes a name from the list of unused tensors.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Throws Error for a tensor the model did not take, except biases of zeros, or beside the model: buffers, empty ones,
  // later layers, mtp, names with no layer number or beginning of the family's (v_head.). A notice lists these.
  void CheckAllTaken(const ModelConfig& config) const;

  const Checkpoint& files() const { return files_; }

 private:
  void DecideWhatIsKept();
  const TensorView& Take(const std::string& name, const std::vector<int64_t>& shape, WeightReading reading);
  // A quantized matrix, without data; nullopt if the tensor is none.
  std::optional<WeightMatrix> TakeCodes(const std::string& name, int64_t out, int64_t in);
  WeightMatrix Kept(const WeightMatrix& matrix, const std::string& name);
  DenseMatrix Native(const TensorView& tensor, int64_t out, int64_t in);

  std::string where_;  // the folder or file, for messages
  int64_t most_kept_;
  bool keeps_ = true;  // whether converted matrices are kept
  WeightReading reading_;
  Checkpoint files_;
  const Projector& projector_;
  std::set<std::string> taken_;
  std::vector<AlignedBuffer<char>> converted_;
};

// Throws Error, starting with `where`, unless these values of a tensor in f32, bf16 or f16 are finite.
void RequireFinite(const TensorView& tensor, size_t first, size_t count, const std::string& where);

// A stored tensor in place: a matrix, or a vector as a matrix with one column, perhaps unaligned: for RowAsFloat.
// Throws Error, starting with `where`, for other shapes and for types other than f32, bf16 and f16.
WeightMatrix StoredMatrix(const TensorView& tensor, const std::string& where);
// The stored tensor of a name that the checkpoint has outside Tare's own codes; another tool's matrix has no data.
WeightMatrix StoredMatrix(const Checkpoint& files, const std::string& name, const std::string& where);

// How large a checkpoint is: its values, and the bytes that hold them with their scales, over all tensors.
struct StoredSize {
  uint64_t values = 0, bytes = 0;                      // of all tensors
  uint64_t quantized_values = 0, quantized_bytes = 0;  // of matrices in codes, with their scales

  double BitsPerWeight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(values); }
  // NaN without such matrices.
  double QuantizedBits() const {
    return 8.0 * static_cast<double>(quantized_bytes) / static_cast<double>(quantized_values);
  }
};

StoredSize StoredSizeOf(const Checkpoint& checkpoint);

}  // namespace tare
