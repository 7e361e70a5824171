// SPDX-License-Identifier: Apache-2.0
#include "quant/file/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quant/base/error.h"
#include "quant/file/safetensors_header.h"

namespace tare {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string_view HeaderText(std::span<const std::byte> file, const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t length = 0;
  if (file.size() < kLengthBytes)
    Fail("{}: got {} bytes, too few for a safetensors file; try downloading it again", where, file.size());
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    Fail("{}: got a header of {} bytes, expected at most {}; it may not be a safetensors file", where, length,
         kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    Fail("{}: truncated: the header alone needs {} bytes, the file has {}; try downloading it again", where,
         kLengthBytes + length, file.size());
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

// The bytes that dtype and shape need.
int64_t NeededBytes(DType dtype, std::span<const int64_t> shape, const std::string& where) {
  const std::optional<int64_t> bytes = ByteCount(dtype, shape);
  if (bytes) return *bytes;
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count || *count > INT64_MAX / 64) Fail("{}: got shape {}, too large for any file", where, ShapeText(shape));
  Fail("{}: got {} values of {} bits, expected a number that fills whole bytes", where, *count, Bits(dtype));
}

using Entry = std::pair<const std::string, SafetensorsHeader::Entry>;

// Entries in the order of their bytes, which must follow each other without hole or overlap, from 0 to `available`.
void CheckOffsets(std::vector<const Entry*> entries, int64_t available, const std::string& where) {
  std::ranges::stable_sort(entries, {}, [](const Entry* entry) { return *entry->second.data_offsets; });
  int64_t end = 0;
  const std::string* before = nullptr;
  for (const Entry* entry : entries) {
    const int64_t begin = (*entry->second.data_offsets)[0];
    if (begin != end) {
      Fail("{}: tensor '{}': {}: begins at byte {}, expected {}, where {} ends; try saving the file again", where,
           entry->first, begin < end ? "overlaps" : "leaves a hole", begin, end,
           before == nullptr ? "the header" : "'" + *before + "'");
    }
    end = (*entry->second.data_offsets)[1];
    before = &entry->first;
  }
  if (end > available) {
    Fail(
        "{}: truncated: the file is {} bytes short of what its header promises (tensor '{}' ends at byte {} of {}); "
        "try downloading it "
        "again",
        where, end - available, *before, end, available);
  }
  if (end < available)
    Fail("{}: the file has {} more bytes after its last tensor; try downloading it again", where, available - end);
}

}  // namespace

SafetensorsContent ParseSafetensors(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text = HeaderText(file, where);
  SafetensorsHeader header = ParseSafetensorsHeader(text, where);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  std::vector<const Entry*> entries;
  for (const Entry& entry : header.entries) {
    const std::vector<int64_t>& offsets = *entry.second.data_offsets;
    const std::string tensor = where + ": tensor '" + entry.first + "'";
    if (offsets[0] > offsets[1])
      Fail("{}: got data_offsets [{}, {}], expected begin <= end", tensor, offsets[0], offsets[1]);
    const int64_t needed = NeededBytes(*entry.second.dtype, *entry.second.shape, tensor);
    if (needed != offsets[1] - offsets[0]) {
      Fail("{}: got data_offsets for {} bytes, expected {} for {} of shape {}; try saving the file again", tensor,
           offsets[1] - offsets[0], needed, Name(*entry.second.dtype), ShapeText(*entry.second.shape));
    }
    entries.push_back(&entry);
  }
  CheckOffsets(std::move(entries), static_cast<int64_t>(data.size()), where);
  SafetensorsContent content{{}, std::move(header.metadata)};
  for (auto& [name, entry] : header.entries) {
    const std::vector<int64_t>& offsets = *entry.data_offsets;
    const auto begin = static_cast<size_t>(offsets[0]), size = static_cast<size_t>(offsets[1]) - begin;
    content.tensors.push_back({name, *entry.dtype, std::move(*entry.shape), data.subspan(begin, size)});
  }
  return content;
}

Safetensors::Safetensors(const std::filesystem::path& path)
    : file_(path), content_(ParseSafetensors(file_.bytes(), path.string())) {}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors()) names.push_back(tensor.name);
  return names;
}

const TensorView* Safetensors::Find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors(), name, {}, &TensorView::name);
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

void Safetensors::Release(const TensorView& tensor) const {
  file_.Release(static_cast<size_t>(tensor.bytes.data() - file_.bytes().data()), tensor.bytes.size());
}

}  // namespace tare
