// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint: one HDF5 file with all that a model needs. Layout: docs/reference/quantized-checkpoint.md.
//
//   /                 schema "tare.quantized/6", plan, plan_hash, method, source, source_sha256, calibration
//   /files/NAME       config.json and the tokenizer's files (kTokenizerFiles of checkpoint.h): u8, unchanged
//   /tensors/NAME     unquantized tensors, as stored; BF16 and F16 as u16 with the attribute dtype
//   /codes/NAME       u8 [out, bytes of a row], quant/format/pack.h; attributes format, granularity, group, in; of
//                     rotated weights hadamard, the channels of a run
//   /scales/NAME      f32 [out, groups]; u8 for E8M0 and E4M3 scales; attribute grid
//   /tensor_scales/NAME  f32 [1], beside E4M3
//   /zeros/NAME       u8 [out, groups], of formats +zero
//   /minima/NAME      f32 [out, groups], of formats +min
//   /low_rank_up/NAME, /low_rank_down/NAME  u16 [out, rank] and [rank, in]: BF16, whose product is added to the values
//   /grids/FORMAT     f32 [2^bits]: the value of each code of a format that is not integer, and of each scale's code
//   /hadamard/signs.N, /hadamard/matrix.B   i8 [N] and i8 [B, B]: the parts of a rotation of N channels (hadamard.h)
//   /clips/PLACE      f32 [n]: the magnitudes that become the largest code of an activation, for rules with +static
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Whether this version reads such a file. Schema /5 has no low-rank branches, /4 no rotations either, /3 no int3, int2
// and e8p, /2 neither +full nor +zero nor +min, /1 integers only; otherwise they are the same.
bool IsQuantizedSchema(std::string_view schema);

// What the file was made from, and how.
struct Provenance {
  std::string plan;       // canonical
  std::string plan_hash;  // Plan::hash
  std::string method;     // "hadamard+gptq": steps from left to right
  std::string source;     // the checkpoint's name
  std::string source_sha256;
  std::string calibration;  // data that the method used; empty: none
};
inline constexpr std::pair<const char*, std::string Provenance::*> kProvenance[] = {
    {"plan", &Provenance::plan},
    {"plan_hash", &Provenance::plan_hash},
    {"method", &Provenance::method},
    {"source", &Provenance::source},
    {"source_sha256", &Provenance::source_sha256},
    {"calibration", &Provenance::calibration}};

class QuantizedCheckpointWriter {
 public:
  QuantizedCheckpointWriter(const std::filesystem::path& path, const Provenance& provenance);

  void AddFile(const std::string& name, std::string_view bytes);
  void AddTensor(const TensorView& tensor);
  void AddMatrix(const std::string& name, const QuantizedMatrix& matrix, Granularity granularity);
  void AddClips(const std::string& name, std::span<const float> values);
  // Without this call, no file stays under the path.
  void Commit() { file_.Commit(); }

 private:
  Hdf5Writer file_;
  std::set<std::string> shared_;  // grids and parts of rotations that are already written
};

class QuantizedCheckpoint {
 public:
  // Maps the file, and checks the SHA-256 of every dataset used and that parts fit together. Throws Error otherwise.
  explicit QuantizedCheckpoint(const std::filesystem::path& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, QuantizedMatrix>& matrices() const { return matrices_; }
  std::optional<std::string_view> File(const std::string& name) const;  // of /files, mapped
  // As File, for a file that is not open: it reads (and checks the hashes of) no more than needed.
  static std::optional<std::string> FileOf(const std::filesystem::path& path, const std::string& name);
  const std::map<std::string, std::vector<float>>& clips() const { return clips_; }
  const Provenance& provenance() const { return provenance_; }

  // Gives back the memory under a tensor or matrix; touching it reads it again.
  void Release(const std::string& name) const;
  // Throws Error for bytes not as written, invalid codes or scales. progress: bytes hashed, then matrices decoded.
  void Verify(const std::function<void(int64_t done, int64_t total, const char* unit)>& progress = {}) const;

 private:
  void ReadTensor(const std::string& name);
  void ReadMatrix(const std::string& name);
  void ReadScales(const std::string& name, const std::string& where, QuantizedMatrix& matrix);
  void ReadRotation(const std::string& codes, const std::string& where, QuantizedMatrix& matrix);
  template <typename T>
  const T* ReadValues(const std::string& path, const std::string& where, const std::vector<int64_t>& shape,
                      const char* what) const;

  Hdf5Reader file_;
  std::set<std::string> checked_rotations_;  // parts that are Tare's own
  Provenance provenance_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, QuantizedMatrix> matrices_;
  std::map<std::string, std::vector<float>> clips_;
};

}  // namespace tare
