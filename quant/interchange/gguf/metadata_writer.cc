// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/metadata_writer.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/interchange/gguf/metadata.h"

namespace tare::gguf {
namespace {

template <typename T>
void Put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian
}

void PutText(std::string& bytes, std::string_view text) {
  Put<uint64_t>(bytes, text.size());
  bytes += text;
}

void PutArray(std::string& bytes, ValueType type, size_t count) {
  Put(bytes, type);
  Put<uint64_t>(bytes, count);
}

}  // namespace

void MetadataWriter::Begin(std::string_view key, uint32_t type) {
  if (std::ranges::contains(keys_, key)) Fail("{}: key '{}': got it twice, expected once", where_, Shown(key));
  keys_.emplace_back(key);
  ++count_;
  PutText(bytes_, key);
  Put(bytes_, type);
}

void MetadataWriter::Text(std::string_view key, std::string_view value) {
  Begin(key, static_cast<uint32_t>(ValueType::kText));
  PutText(bytes_, value);
}

void MetadataWriter::Number(std::string_view key, int64_t value) {
  if (value < 0 || value > int64_t{0xffffffff})
    Fail("{}: key '{}': got {}, expected 0 to 2^32 - 1", where_, Shown(key), value);
  Begin(key, static_cast<uint32_t>(ValueType::kU32));
  Put(bytes_, static_cast<uint32_t>(value));
}

void MetadataWriter::Real(std::string_view key, double value) {
  Begin(key, static_cast<uint32_t>(ValueType::kF32));
  Put(bytes_, static_cast<float>(value));
}

void MetadataWriter::Flag(std::string_view key, bool value) {
  Begin(key, static_cast<uint32_t>(ValueType::kBool));
  Put(bytes_, static_cast<uint8_t>(value));
}

void MetadataWriter::Texts(std::string_view key, std::span<const std::string> values) {
  Begin(key, static_cast<uint32_t>(ValueType::kArray));
  PutArray(bytes_, ValueType::kText, values.size());
  for (const std::string& value : values) PutText(bytes_, value);
}

void MetadataWriter::Reals(std::string_view key, std::span<const float> values) {
  Begin(key, static_cast<uint32_t>(ValueType::kArray));
  PutArray(bytes_, ValueType::kF32, values.size());
  for (const float value : values) Put(bytes_, value);
}

void MetadataWriter::Integers(std::string_view key, std::span<const int32_t> values) {
  Begin(key, static_cast<uint32_t>(ValueType::kArray));
  PutArray(bytes_, ValueType::kI32, values.size());
  for (const int32_t value : values) Put(bytes_, value);
}

void MetadataWriter::Flags(std::string_view key, const std::vector<bool>& values) {
  Begin(key, static_cast<uint32_t>(ValueType::kArray));
  PutArray(bytes_, ValueType::kBool, values.size());
  for (const bool value : values) Put(bytes_, static_cast<uint8_t>(value));
}

}  // namespace tare::gguf
