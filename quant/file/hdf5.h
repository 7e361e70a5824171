// SPDX-License-Identifier: Apache-2.0
// HDF5 files as Tare writes and reads them. Datasets are contiguous, on 64-byte boundaries and allocated at once, so
// that they can be mapped; no object times, so that equal content is equal bytes; format of HDF5 1.10, whose metadata
// carry checksums. A file appears under its name only when it is whole: every dataset has the SHA-256 of its bytes in
// the attribute "sha256", the root that of the datasets' names in "datasets", and its "complete" = 1 is set last. A
// dataset is held to its hash when it is first read; files of other programs have none.
//
// Objects are named by path: "codes", "layer.0/scales"; "" is the root. All calls of a process into these classes come
// from one thread at a time: the library beneath has one lock at best. Bytes() may be used from any.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "quant/file/atomic_file.h"
#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"

namespace tare {

// The dtype of a C++ number.
template <typename T>
  requires std::is_arithmetic_v<T>
constexpr DType DTypeOf() {
  constexpr bool kSigned = std::is_signed_v<T>;
  if constexpr (std::same_as<T, float>) return DType::kF32;
  if constexpr (std::same_as<T, double>) return DType::kF64;
  if constexpr (sizeof(T) == 1) return kSigned ? DType::kI8 : DType::kU8;
  if constexpr (sizeof(T) == 2) return kSigned ? DType::kI16 : DType::kU16;
  if constexpr (sizeof(T) == 4) return kSigned ? DType::kI32 : DType::kU32;
  return kSigned ? DType::kI64 : DType::kU64;
}

class Hdf5Writer {
 public:
  using Value = std::variant<std::string, int64_t, double>;

  explicit Hdf5Writer(const std::filesystem::path& path);  // the final name
  Hdf5Writer(Hdf5Writer&& other) noexcept;
  ~Hdf5Writer();  // without Commit nothing stays

  // Groups on the way are made. dtype: an integer, F32 or F64.
  void CreateDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape);
  // Rows [first, first + count) along dimension 0, row-major; every value is to be written once before Commit.
  void WriteRows(const std::string& name, int64_t first, int64_t count, const void* values);
  // Values [first, first + count) of the dataset in row-major order. The one call that several threads may make at
  // once.
  void WriteAt(const std::string& name, int64_t first, int64_t count, const void* values);
  // Both at once.
  void WriteDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape, const void* values);
  template <typename T>
  void WriteDataset(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values);

  // On a dataset or group that is there, "" for the root. Strings hold no NUL. "sha256", "datasets" and
  // "complete" are not for callers.
  void SetAttribute(const std::string& object, const std::string& key, const Value& value);

  // Seals (hashes, marks complete), syncs and renames. Afterwards nothing more may be written.
  void Commit();

 private:
  struct Dataset {
    DType dtype;
    std::vector<int64_t> shape;
    int64_t offset = 0;  // in the file
    int64_t values_written = 0;
  };

  Dataset& Find(const std::string& name);
  void CheckSize(const std::string& name, DType dtype, const std::vector<int64_t>& shape, size_t elements) const;
  void CreateGroupsOf(const std::string& name);
  void Seal();

  AtomicFile file_;
  int64_t id_ = -1;
  std::map<std::string, Dataset> datasets_;
};

template <typename T>
void Hdf5Writer::WriteDataset(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values) {
  CheckSize(name, DTypeOf<T>(), shape, values.size());
  WriteDataset(name, DTypeOf<T>(), shape, static_cast<const void*>(values.data()));
}

class Hdf5Reader {
 public:
  // Any HDF5 file, also one that another program wrote. Throws Error where it is not one, or cut short.
  explicit Hdf5Reader(const std::filesystem::path& path);
  Hdf5Reader(Hdf5Reader&& other) noexcept;
  ~Hdf5Reader();

  const std::filesystem::path& path() const { return file_.path(); }
  std::vector<std::string> datasets() const;  // paths, sorted
  bool Has(const std::string& name) const;    // a dataset of that name
  std::vector<int64_t> Shape(const std::string& name) const;
  DType Type(const std::string& name) const;

  // The dataset where the file is mapped. Throws Error where it is not contiguous (chunked, compressed, kept outside),
  // and where its bytes are not those that were written.
  std::span<const std::byte> Bytes(const std::string& name) const;
  // A copy of the dataset as it is stored, also of one that is chunked, deflated or shuffled.
  std::vector<std::byte> Copy(const std::string& name) const;
  // A copy, converted: integers to any integer type that holds every value, F32 and F64 to float or double (a finite
  // value stays finite). T: int8_t .. uint64_t, float, double.
  template <typename T>
  std::vector<T> Read(const std::string& name) const;

  bool HasAttribute(const std::string& object, const std::string& key) const;  // object "" is the root
  // Strings of fixed length, padded or terminated in any of HDF5's ways.
  std::string StringAttribute(const std::string& object, const std::string& key) const;
  int64_t IntAttribute(const std::string& object, const std::string& key) const;
  double DoubleAttribute(const std::string& object, const std::string& key) const;

  // Throws Error unless "complete" is 1 and every dataset is there with the SHA-256 it was written with.
  // progress: bytes seen of all, after each dataset.
  void Verify(const std::function<void(int64_t done, int64_t total)>& progress = {}) const;

  // Gives back the memory under Bytes(name); it is read again when touched again.
  void Release(const std::string& name) const;

 private:
  void CheckNames() const;
  void CheckHash(const std::string& name, std::span<const std::byte> bytes) const;
  void GiveBack(std::span<const std::byte> bytes) const;

  MappedFile file_;
  int64_t id_ = -1;
  mutable std::set<std::string> checked_;  // datasets whose hash was looked at
};

}  // namespace tare
