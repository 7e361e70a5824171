// SPDX-License-Identifier: Apache-2.0
// Arrays that another program wrote: safetensors, HDF5 (datasets anywhere in it, contiguous, deflated or shuffled) and
// npz (numpy.savez and savez_compressed). Values are converted to f32 as they are read; mapped data is not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/dtype.h"

namespace tare {

struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

// The values of one array in row-major order.
class ArrayValues {
 public:
  // Of a mapped file that outlives it.
  ArrayValues(DType dtype, std::span<const std::byte> mapped) : dtype_(dtype), bytes_(mapped) {}
  ArrayValues(DType dtype, std::vector<std::byte> owned) : dtype_(dtype), owned_(std::move(owned)), bytes_(owned_) {}
  ArrayValues(ArrayValues&&) = default;

  // out[i] = value first + i * stride, i below count: floating point rounded to f32, integers and booleans as they are.
  // In the bounds of the array.
  void Read(int64_t first, int64_t stride, int64_t count, float* out) const;
  int64_t Integer(int64_t index) const;  // of an array of integers

 private:
  DType dtype_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

class ArrayFile {
 public:
  // By the ending: .safetensors, .h5 or .hdf5, .npz. Throws Error, as do the others, naming file and array.
  static std::unique_ptr<ArrayFile> Open(const std::filesystem::path& path);
  virtual ~ArrayFile() = default;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ArrayInfo>& arrays() const { return arrays_; }  // by name
  // Throws Error for a type that Read does not know: f8 and narrower, complex.
  ArrayValues Values(const ArrayInfo& array) const;

 protected:
  explicit ArrayFile(std::filesystem::path path) : path_(std::move(path)) {}
  void List(ArrayInfo array) { arrays_.push_back(std::move(array)); }  // in the order of names
  virtual ArrayValues Load(const ArrayInfo& array) const = 0;

 private:
  std::filesystem::path path_;
  std::vector<ArrayInfo> arrays_;
};

}  // namespace tare
