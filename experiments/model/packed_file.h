// SPDX-License-Identifier: Apache-2.0
// Packed codes of a model under a plan in one file, which later runs map instead of packing again: the start takes as
// long as reading the file, and the codes take no memory of the process's own. Packing 6.7 G weights takes more than
// half a minute of processor time each time, and the codes then stand in memory.
//
// It is a safetensors file, the same on every machine: for each matrix NAME, as the checkpoint calls its weights,
//
//   NAME.codes     U8 [panels, bytes of a panel]   kernels/linear/packed_matrix.h says in which order
//   NAME.scales    F32 [panels, groups, 64]
//   NAME.offsets   F32 [panels, groups, 64]        where the plan has zero points or minima
//
// and in its metadata `schema` "tare.packed/2", what the codes are of (PackedSource), which must be what is at hand,
// and for each NAME "FORMAT OUT IN GROUPS SHA256", with the hash of its tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/linear/packed_matrix.h"
#include "quant/file/atomic_file.h"
#include "quant/file/safetensors.h"

namespace tare {

// What packed codes are of: Checkpoint::ContentHash and ConfigHash, the plan's rules for weights, and `--math`, under
// which weights may be converted before they are rounded.
struct PackedSource {
  std::string weights_sha256, config_sha256, rules, math;
  bool operator==(const PackedSource&) const = default;
};

// Writes such a file one matrix after the other, so that no two need stand in memory. Without Commit there is no file.
class PackedFileWriter {
 public:
  // names: of all matrices that may be added.
  PackedFileWriter(const std::filesystem::path& path, PackedSource source, const std::vector<std::string>& names);
  void Add(const std::string& name, const PackedMatrix& matrix);
  void Commit();
  bool empty() const { return tensors_.empty(); }

 private:
  void AddTensor(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape,
                 std::string_view bytes);

  struct Tensor {
    std::string name, dtype;
    std::vector<int64_t> shape;
    int64_t begin, end;
  };
  AtomicFile file_;
  int64_t header_bytes_;  // room for the header, written last
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

class PackedFile {
 public:
  // Reads the file once, on all threads. Throws Error, naming the file, if it is of another source, or damaged.
  PackedFile(const std::filesystem::path& path, PackedSource source);

  const PackedSource& source() const { return source_; }
  // The matrix in the mapped file, which must outlive it; nullopt if the file has none of this name.
  std::optional<PackedMatrix> Find(const std::string& name) const;

 private:
  void CheckSource(const std::string& where) const;
  PackedMatrix::Parts PartsOf(const std::string& name, std::string_view described) const;

  PackedSource source_;
  Safetensors file_;
  std::map<std::string, PackedMatrix::Parts> matrices_;
};

}  // namespace tare
