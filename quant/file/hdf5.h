// SPDX-License-Identifier: Apache-2.0
// HDF5 files as Tare writes and reads them. Datasets are contiguous, on 64-byte boundaries and allocated at once, so
// they can be mapped. Object times are not stored, so equal content gives equal bytes. The format is that of HDF5 1.10,
// whose metadata carry checksums. A file appears under its name only when it is whole: every dataset has the SHA-256 of
// its bytes in the attribute "sha256", the root has that of the datasets' names in "datasets", and "complete" = 1 is
// set last. A dataset's hash is checked when the dataset is first read; files of other programs have no hashes.
//
// Objects are named by path: "codes", "layer.0/scales"; "" is the root. A process must call these classes from one
// thread at a time, because the library beneath has at most one lock. Bytes() may be used from any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "quant/file/atomic_file.h"
#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"

namespace tare {

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
  using Value = std::variant<std::string, int64_t>;

  explicit Hdf5Writer(const std::filesystem::path& path);  // the final name
  Hdf5Writer(const Hdf5Writer&) = delete;
  ~Hdf5Writer();  // without Commit the file is removed

  // Creates missing groups. dtype: an integer type, F32 or F64.
  void CreateDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape);
  // Values [first, first + count), row-major, each written once before Commit. Several threads may call this at once.
  void WriteAt(const std::string& name, int64_t first, int64_t count, const void* values);
  void WriteDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape, const void* values);
  template <typename T>
  void WriteDataset(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values);

  // On a dataset or group, "" for the root. Strings without NUL. "sha256", "datasets" and "complete" are reserved.
  void SetAttribute(const std::string& object, const std::string& key, const Value& value);

  // Seals (hashes, marks complete), syncs and renames. Nothing may be written afterwards.
  void Commit();

 private:
  struct Dataset {
    DType dtype;
    std::vector<int64_t> shape;
    int64_t offset = 0;  // in the file
    int64_t values_written = 0;
  };

  Dataset& Find(const std::string& name);
  void CreateGroupsOf(const std::string& name);
  void Seal();

  AtomicFile file_;
  int64_t id_ = -1;
  std::map<std::string, Dataset> datasets_;
};

template <typename T>
void Hdf5Writer::WriteDataset(const std::string& name, const std::vector<int64_t>& shape, std::span<const T> values) {
  CreateDataset(name, DTypeOf<T>(), shape);
  WriteAt(name, 0, std::ssize(values), values.data());
}

class Hdf5Reader {
 public:
  // Any HDF5 file, also of another program. Throws Error if it is not HDF5, or is cut short.
  explicit Hdf5Reader(const std::filesystem::path& path);
  Hdf5Reader(Hdf5Reader&& other) noexcept;
  ~Hdf5Reader();

  const std::filesystem::path& path() const { return file_.path(); }
  std::vector<std::string> datasets() const;  // paths, sorted
  bool Has(const std::string& name) const;    // a dataset, not a group
  std::vector<int64_t> Shape(const std::string& name) const;
  DType Type(const std::string& name) const;

  // The dataset's mapped bytes. Throws Error if not contiguous (chunked, compressed, external) or of another hash.
  std::span<const std::byte> Bytes(const std::string& name) const;
  // A copy of the stored values, also of a chunked, deflated or shuffled dataset. rows: of these alone, which have one
  // index on the axes before the last two; the memory under them is given back.
  std::vector<std::byte> Copy(const std::string& name, std::optional<RowRange> rows = {}) const;
  // As T, int8_t .. uint64_t, float or double: integers where T holds every value, F32 and F64 as finite as they are.
  template <typename T>
  std::vector<T> Read(const std::string& name) const;

  bool HasAttribute(const std::string& object, const std::string& key) const;  // object "" is the root
  // Strings of fixed length, padded or terminated in any of HDF5's ways.
  std::string StringAttribute(const std::string& object, const std::string& key) const;
  int64_t IntAttribute(const std::string& object, const std::string& key) const;

  // Throws Error unless "complete" is 1 and all datasets have their SHA-256. progress: bytes checked so far and in all.
  void Verify(const std::function<void(int64_t done, int64_t total)>& progress = {}) const;

  // Gives back the memory under Bytes(name); touching it reads it again.
  void Release(const std::string& name) const;

 private:
  explicit Hdf5Reader(MappedFile file);  // open, nothing of it checked

  void CheckHash(const std::string& name, const std::function<std::string()>& hash) const;

  MappedFile file_;
  int64_t id_ = -1;
  mutable std::set<std::string> checked_;  // datasets whose hash is verified
};

// What a file says it is, in its attribute "schema"; "" where it does not, or is no whole HDF5 file.
std::string SchemaOf(const std::filesystem::path& path);

}  // namespace tare
