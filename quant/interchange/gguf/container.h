// SPDX-License-Identifier: Apache-2.0
// GGUF files, versions 2 and 3, little-endian (github.com/ggml-org/ggml/docs/gguf.md):
//
//   "GGUF", u32 version, u64 tensors, u64 keys
//   per key     text key, u32 type, value
//   per tensor  text name, u32 dimensions, u64 sizes (the innermost first), u32 type, u64 offset
//   padding to a multiple of general.alignment (32), then the tensors' bytes, to which offsets are relative
//
// Every rule is checked before use: a tensor's bytes are inside the file, aligned, and no other tensor's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"

namespace tare::gguf {

// Types of values, in the order of their numbers in files.
enum class ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

// Reads the bytes of a file in order. Throws Error, starting with `where`, if they end too early.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  template <typename T>
  T Number(std::string_view what) {
    return Load<T>(Take(sizeof(T), what).data());
  }
  std::string_view Text(std::string_view what);  // 8 bytes of length before it
  // A text by which messages call something: at most 1024 characters of printable ASCII.
  std::string_view Name(std::string_view what);
  std::span<const std::byte> Take(uint64_t size, std::string_view what);

  std::span<const std::byte> bytes() const { return bytes_; }  // all of them
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  const std::string& where() const { return where_; }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string where_;
};

// The beginning of a text for messages, with ? for what is not printable ASCII.
std::string Shown(std::string_view text);

// Elements of one type, not aligned; an array of arrays is kept as bytes.
struct Array {
  ValueType type = ValueType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

using Value = std::variant<uint64_t, int64_t, double, bool, std::string_view, Array>;

// The metadata of a GGUF file: values by key, each a number, a flag, a text or an array. Texts and arrays point into
// the file. Reading checks every length against the bytes that are left, so that memory is bounded by the file's size.
class Metadata {
 public:
  Metadata() = default;
  Metadata(Cursor& cursor, uint64_t count);

  // Each throws Error, naming the key, for a value of another kind or out of range; nullopt if there is none.
  std::optional<uint64_t> Unsigned(std::string_view key, uint64_t most) const;
  std::optional<double> Real(std::string_view key) const;  // finite
  std::optional<bool> Flag(std::string_view key) const;
  std::optional<std::string_view> Text(std::string_view key) const;
  std::optional<std::vector<std::string_view>> Texts(std::string_view key) const;
  // The values of an array of numbers or flags.
  std::optional<std::vector<double>> Reals(std::string_view key) const;

  const std::map<std::string_view, Value>& values() const { return values_; }
  const std::string& where() const { return where_; }

 private:
  const Value* Find(std::string_view key) const;
  template <typename T>
  std::optional<T> Of(std::string_view key, std::string_view expected) const;
  [[noreturn]] void Wrong(std::string_view key, const Value& value, std::string_view expected) const;

  std::string where_;
  std::map<std::string_view, Value> values_;
};

// Keys of a GGUF file that begin with its architecture's name. One that nobody asks for may change the model: refused.
class ArchitectureKeys {
 public:
  // The metadata must outlive it.
  ArchitectureKeys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  // Each throws Error where a key has another kind of value. A list of numbers, one per layer, must hold equal ones.
  std::optional<int64_t> Number(std::string_view key);
  int64_t Need(std::string_view key);  // more than 0
  // A finite f32, as the shortest number that is it.
  std::optional<double> Real(std::string_view key);
  std::optional<bool> Flag(std::string_view key) { return metadata_.Flag(Used(key)); }
  std::optional<std::string_view> Text(std::string_view key) { return metadata_.Text(Used(key)); }
  // A list of so many numbers or flags; empty if there is none.
  std::vector<double> Reals(std::string_view key, int64_t count);
  bool IsArray(std::string_view key) const;
  // The key may be missing or have this value.
  void Expect(std::string_view key, int64_t expected, std::string_view why);
  void ExpectReal(std::string_view key, double expected);
  void Ignore(std::string_view key) { Used(key); }
  // All keys of the architecture must have been asked for.
  void CheckAllUsed() const;

  const std::string& where() const { return metadata_.where(); }
  std::string Name(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  std::string Used(std::string_view key) { return *used_.insert(Name(key)).first; }

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_;
};

// Types of tensors (ggml.h, enum ggml_type): a row is whole blocks (blocks.h) of so many values and so many bytes.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct TypeInfo {
  TensorType type;
  std::string_view name;
  int64_t values, bytes;  // of a block

  bool IsFloat() const { return values == 1; }
};

// The type, or null if Tare does not read it (blocks.cc).
const TypeInfo* FindType(uint32_t id);
const TypeInfo* FindType(std::string_view name);
// "IQ4_XS (type 23)", also of types that Tare does not read.
std::string TypeText(uint32_t id);
// The types that Tare reads, for messages.
std::string TypesRead();

struct Tensor {
  std::string_view name;
  const TypeInfo* type = nullptr;
  std::vector<int64_t> shape;        // the innermost last
  std::span<const std::byte> bytes;  // whole rows, one after another
};

struct Content {
  Metadata metadata;
  std::vector<Tensor> tensors;  // in the file's order
};

// The tensor of this name, or null.
const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name);

// Parses the bytes of a whole file; the result points into them. `where` starts messages.
Content Parse(std::span<const std::byte> file, const std::string& where);

// A GGUF model in one file, or in PREFIX-00001-of-00003.gguf that each say their number from 0 (split.no), the number
// of parts (split.count) and of all tensors (split.tensors.count). The first has the metadata; any stands for all.
class Parts {
 public:
  // Throws Error if a part is missing, or the parts do not belong together.
  explicit Parts(const std::filesystem::path& path);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // of all parts

  void Release(std::span<const std::byte> bytes) const;
  // The hash that `sha256sum FILE` prints; for parts, of the lines of `sha256sum FILES` in the folder, in order.
  std::string ContentHash() const;

 private:
  std::vector<MappedFile> files_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
};

// The metadata of the first part alone, and the file that it is in.
struct FirstPart {
  MappedFile file;
  Content content;
};
FirstPart OpenFirst(const std::filesystem::path& path);

// ---- Writes a GGUF file of version 3, whole or not at all, with one tensor at a time in memory.

// The bytes of keys and values, in the order in which they are added.
class MetadataWriter {
 public:
  // Throws Error, starting with `where`, for a key that is there already, or that files cannot have.
  explicit MetadataWriter(std::string where) : where_(std::move(where)) {}

  void Text(std::string_view key, std::string_view value);
  void Number(std::string_view key, int64_t value);  // of 0 to 2^32 - 1
  void Real(std::string_view key, double value);     // as f32
  void Flag(std::string_view key, bool value);
  void Texts(std::string_view key, std::span<const std::string> values);
  void Reals(std::string_view key, std::span<const float> values);
  void Integers(std::string_view key, std::span<const int32_t> values);
  void Flags(std::string_view key, const std::vector<bool>& values);

  uint64_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }
  const std::string& where() const { return where_; }

 private:
  template <typename T>
  void One(std::string_view key, ValueType type, T value);
  template <typename T, typename List>
  void All(std::string_view key, ValueType type, const List& values);

  std::string where_, bytes_;
  std::vector<std::string> keys_;
};

struct NewTensor {
  std::string name;
  const TypeInfo* type = nullptr;
  std::vector<int64_t> shape;  // the innermost last
  std::function<void(std::span<std::byte> bytes)> fill;

  // The size of the tensor, which is whole blocks.
  int64_t Bytes() const;
};

// progress: tensors' bytes written and in all. Throws Error where llama.cpp would not read it: names above 63 bytes.
void WriteGguf(const std::filesystem::path& path, const MetadataWriter& metadata, std::span<const NewTensor> tensors,
               const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace tare::gguf
