// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint: one HDF5 file with everything that a model needs. quantized-checkpoint.md beside this file
// describes the layout for readers in other languages.
//
//   /                 schema "tare.quantized/2", plan, plan_hash, method, source, source_sha256, calibration
//   /files/NAME       config.json and what the tokenizer has (kTokenizerFiles of checkpoint.h): u8, as they were
//   /tensors/NAME     what is not quantized, as stored; BF16 and F16 as u16 with the attribute dtype
//   /codes/NAME       u8 [out, bytes of a row], quant/format/pack.h; attributes format, granularity, group, in
//   /scales/NAME      f32 [out, groups], or u8 of what is E8M0 or E4M3; attribute grid
//   /tensor_scales/NAME  f32 [1], beside E4M3
//   /grids/FORMAT     f32 [2^bits]: what the codes of a format that is not integer stand for, and those of its scales
//   /clips/PLACE      f32 [n]: what becomes the largest code of an activation under the plan's rules with +static
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// Whether this version reads such a file: /1 has integers alone and is otherwise the same.
bool IsQuantizedSchema(std::string_view schema);

// What it was made from, and how.
struct Provenance {
  std::string plan;       // canonical
  std::string plan_hash;  // Plan::hash
  std::string method;     // "hadamard+gptq": steps from left to right
  std::string source;     // the checkpoint's name
  std::string source_sha256;
  std::string calibration;  // the data that the method looked at; empty: none
};

class QuantizedCheckpointWriter {
 public:
  QuantizedCheckpointWriter(const std::filesystem::path& path, const Provenance& provenance);

  void AddFile(const std::string& name, std::string_view bytes);
  void AddTensor(const TensorView& tensor);
  void AddMatrix(const std::string& name, const QuantizedMatrix& matrix, Granularity granularity);
  void AddClips(const std::string& name, std::span<const float> values);
  // Nothing stays under the path without it.
  void Commit() { file_.Commit(); }

 private:
  Hdf5Writer file_;
  std::set<std::string> grids_;  // written
};

class QuantizedCheckpoint {
 public:
  // Maps the file, holds every dataset that it takes to its SHA-256, and checks that everything fits together. Throws
  // Error where it does not.
  explicit QuantizedCheckpoint(const std::filesystem::path& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, QuantizedMatrix>& matrices() const { return matrices_; }
  std::optional<std::string_view> File(const std::string& name) const;  // of /files, mapped
  // The same of a file that is not open, which is read (and checked against its hashes) only that far.
  static std::optional<std::string> FileOf(const std::filesystem::path& path, const std::string& name);
  const std::map<std::string, std::vector<float>>& clips() const { return clips_; }
  const Provenance& provenance() const { return provenance_; }

  // Gives back the memory under a tensor or matrix; it is read again when touched again.
  void Release(const std::string& name) const;
  // Throws Error where any byte is not what was written, or a code or scale is none.
  // progress: bytes hashed, then matrices decoded, of all.
  void Verify(const std::function<void(int64_t done, int64_t total, const char* unit)>& progress = {}) const;

 private:
  void ReadTensor(const std::string& name);
  void ReadMatrix(const std::string& name);
  void ReadScales(const std::string& name, const std::string& where, QuantizedMatrix& matrix);
  void ReadClips(const std::string& path);

  Hdf5Reader file_;
  Provenance provenance_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, QuantizedMatrix> matrices_;
  std::map<std::string, std::vector<float>> clips_;
};

}  // namespace tare
