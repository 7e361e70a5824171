// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/container.h"

#include <algorithm>
#include <utility>

#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/dtype.h"

namespace tare::gguf {
namespace {

constexpr int64_t kAlignment = 32;  // where general.alignment says nothing else
constexpr size_t kMostName = 63;    // GGML_MAX_NAME, less the byte that ends it

template <typename T>
void Append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian
}

void Append(std::string& bytes, std::string_view text) {
  Append<uint64_t>(bytes, text.size());
  bytes += text;
}

// All before the tensors' bytes.
std::string HeadOf(const MetadataWriter& metadata, std::span<const NewTensor> tensors) {
  std::string head = "GGUF";
  Append<uint32_t>(head, 3);
  Append<uint64_t>(head, tensors.size());
  Append<uint64_t>(head, metadata.count());
  head += metadata.bytes();
  int64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    if (tensor.name.size() > kMostName)
      Fail("{}: tensor '{}': got a name of {} bytes, expected at most {}", metadata.where(), tensor.name,
           tensor.name.size(), kMostName);
    Append(head, std::string_view(tensor.name));
    Append(head, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) Append(head, static_cast<uint64_t>(tensor.shape[i]));
    Append(head, static_cast<uint32_t>(tensor.type->type));
    Append(head, static_cast<uint64_t>(offset));
    offset += RoundUp(tensor.Bytes(), kAlignment);
  }
  head.resize(static_cast<size_t>(RoundUp(std::ssize(head), kAlignment)));
  return head;
}

}  // namespace

template <typename T>
void MetadataWriter::One(std::string_view key, ValueType type, T value) {
  if (std::ranges::contains(keys_, key)) Fail("{}: key '{}': got it twice, expected once", where_, Shown(key));
  keys_.emplace_back(key);
  Append(bytes_, key);
  Append(bytes_, type);
  Append(bytes_, value);
}

template <typename T, typename List>
void MetadataWriter::All(std::string_view key, ValueType type, const List& values) {
  One(key, ValueType::kArray, type);
  Append<uint64_t>(bytes_, values.size());
  for (const T value : values) Append(bytes_, value);
}

void MetadataWriter::Text(std::string_view key, std::string_view value) { One(key, ValueType::kText, value); }
void MetadataWriter::Number(std::string_view key, int64_t value) {
  if (!std::in_range<uint32_t>(value)) Fail("{}: key '{}': got {}, expected 0 to 2^32 - 1", where_, Shown(key), value);
  One(key, ValueType::kU32, static_cast<uint32_t>(value));
}
void MetadataWriter::Real(std::string_view key, double value) { One(key, ValueType::kF32, static_cast<float>(value)); }
void MetadataWriter::Flag(std::string_view key, bool value) { One(key, ValueType::kBool, value); }

void MetadataWriter::Texts(std::string_view key, std::span<const std::string> values) {
  All<std::string_view>(key, ValueType::kText, values);
}
void MetadataWriter::Reals(std::string_view key, std::span<const float> values) {
  All<float>(key, ValueType::kF32, values);
}
void MetadataWriter::Integers(std::string_view key, std::span<const int32_t> values) {
  All<int32_t>(key, ValueType::kI32, values);
}
void MetadataWriter::Flags(std::string_view key, const std::vector<bool>& values) {
  All<bool>(key, ValueType::kBool, values);
}

int64_t NewTensor::Bytes() const {
  TARE_CHECK(!shape.empty() && shape.back() % type->values == 0);
  return *ElementCount(shape) / type->values * type->bytes;
}

void WriteGguf(const std::filesystem::path& path, const MetadataWriter& metadata, std::span<const NewTensor> tensors,
               const std::function<void(int64_t, int64_t)>& progress) {
  const std::string head = HeadOf(metadata, tensors);
  int64_t done = 0, total = 0;
  for (const NewTensor& tensor : tensors) total += tensor.Bytes();
  AtomicFile file(path);
  file.Write(head);
  std::string bytes;
  for (const NewTensor& tensor : tensors) {
    bytes.assign(static_cast<size_t>(RoundUp(tensor.Bytes(), kAlignment)), '\0');
    tensor.fill(std::as_writable_bytes(std::span(bytes)).first(static_cast<size_t>(tensor.Bytes())));
    file.Write(bytes);
    done += tensor.Bytes();
    if (progress) progress(done, total);
  }
  file.Commit();
}

}  // namespace tare::gguf
