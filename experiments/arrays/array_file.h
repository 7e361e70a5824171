// SPDX-License-Identifier: Apache-2.0
// Arrays written by other programs: safetensors, HDF5 (any dataset, contiguous, deflated or shuffled), npz (numpy.savez
// and savez_compressed) and npy. Values are converted to f32 as they are read; mapped data is not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"

namespace tare {

struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

bool IsInteger(DType dtype);

// The values of one array in row-major order.
class ArrayValues {
 public:
  // In a mapped file, which must outlive it.
  ArrayValues(DType dtype, std::span<const std::byte> mapped) : dtype_(dtype), bytes_(mapped) {}
  ArrayValues(DType dtype, std::vector<std::byte> owned) : dtype_(dtype), owned_(std::move(owned)), bytes_(owned_) {}
  ArrayValues(ArrayValues&&) = default;

  // out[i] = value first + i * stride, i below count: floating point rounded to f32, integers and booleans as they are.
  // In the bounds of the array. Throws Error for a finite F64 that f32 cannot hold.
  void Read(int64_t first, int64_t stride, int64_t count, float* out) const;
  int64_t Integer(int64_t index) const;  // only for arrays of integers

 private:
  friend class ArrayFile;
  std::string where_;  // of messages
  DType dtype_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

class ArrayFile {
 public:
  // Chosen by extension: .safetensors, .h5 or .hdf5, .npz, .npy (one array of the file's name). Throws Error, like the
  // others, naming file and array.
  static std::unique_ptr<ArrayFile> Open(const std::filesystem::path& path);

  // arrays: in the order of names. load, of some rows or all values, has what keeps the file open.
  using Load = std::function<ArrayValues(const ArrayInfo&, std::optional<RowRange>)>;
  ArrayFile(std::filesystem::path path, std::vector<ArrayInfo> arrays, Load load)
      : path_(std::move(path)), arrays_(std::move(arrays)), load_(std::move(load)) {}

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ArrayInfo>& arrays() const { return arrays_; }  // sorted by name
  const ArrayInfo* Find(std::string_view name) const;               // null if there is none
  // Throws Error for a type that Read does not support: f8 and narrower, complex. rows: these alone, with one index on
  // the axes before the last two, in memory of their own; those before the last ones inflate a .npz once more. From one
  // thread at a time, and not of arrays in memory.
  ArrayValues Values(const ArrayInfo& array, std::optional<RowRange> rows = {}) const;

 private:
  std::filesystem::path path_;
  std::vector<ArrayInfo> arrays_;
  Load load_;
};

// The values of an array in a mapped file: all of them in place, or a copy of rows, whose pages are given back.
ArrayValues MappedValues(const MappedFile& file, const ArrayInfo& array, std::span<const std::byte> bytes,
                         std::optional<RowRange> rows);

// numpy's .npz: a ZIP archive of .npy files (numpy.lib.format, versions 1 to 3), stored or deflated. Python objects are
// not read, so no code in a file is run.
std::unique_ptr<ArrayFile> OpenNpz(const std::filesystem::path& path);
std::unique_ptr<ArrayFile> OpenNpy(const std::filesystem::path& path);

// Arrays in memory, with the interface of an array file. name: used in messages instead of a path. The values must
// outlive it.
std::unique_ptr<ArrayFile> ArraysInMemory(const std::string& name,
                                          const std::vector<std::pair<ArrayInfo, std::span<const std::byte>>>& arrays);

// Identifies captured arrays: equal names, shapes and f32 values give an equal digest, whatever file and type store
// them. Values enter SHA-256 through four 64-bit sums per 4096 values, h = (rotate(h, 29) + two values) * odd constant,
// which collide by chance once in 2^64 but can be forged: the digest tells runs apart, it does not protect them. It
// takes a tenth of the time of SHA-256 over the values themselves.
void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values);

}  // namespace tare
