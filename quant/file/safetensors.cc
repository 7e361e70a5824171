// SPDX-License-Identifier: Apache-2.0
// The header's bytes, its entries, their checks against the file, the header of a new file, and last what is read and
// written.
#include "quant/file/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kAdvice = "; try downloading or saving the file again";

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

// A number itself, the kind of anything else.
std::string Shown(const nlohmann::json& value) { return value.is_number() ? value.dump() : value.type_name(); }

std::map<std::string, std::string> MetadataOf(const nlohmann::json& texts, const std::string& where) {
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : texts.items()) {
    if (!text.is_string())
      Fail("{}: __metadata__: '{}': got {}, expected a string{}", where, key, Shown(text), kAdvice);
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

std::vector<int64_t> NumbersOf(const nlohmann::json& list, const char* key, const std::string& where) {
  const auto refuse = [&](const nlohmann::json& got) {
    Fail("{}: '{}': got {}, expected an array of integers from 0 to 2^63-1{}", where, key, Shown(got), kAdvice);
  };
  std::vector<int64_t> numbers;
  if (!list.is_array()) refuse(list);
  for (const nlohmann::json& number : list) {
    if (!number.is_number_unsigned() || !std::in_range<int64_t>(number.get<uint64_t>())) refuse(number);
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

// An entry of the header; the tensor has no bytes yet.
struct Entry {
  TensorView tensor;
  std::vector<int64_t> offsets;  // begin, end
};

Entry EntryOf(const std::string& name, const nlohmann::json& members, const std::string& where) {
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!members.contains(key)) Fail("{}: has no {}{}", where, key, kAdvice);
  }
  for (const auto& [key, value] : members.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      Fail("{}: '{}': got {}, expected no such key{}", where, key, Shown(value), kAdvice);
  }
  const nlohmann::json& type = members["dtype"];
  if (!type.is_string()) Fail("{}: 'dtype': got {}, expected a string{}", where, Shown(type), kAdvice);
  const std::optional<DType> dtype = ParseDType(type.get<std::string>());
  if (!dtype)
    Fail("{}: got dtype '{}', expected one that safetensors names (F32, BF16, ...)", where, type.get<std::string>());
  Entry entry{.tensor = {.name = name, .dtype = *dtype, .shape = NumbersOf(members["shape"], "shape", where)},
              .offsets = NumbersOf(members["data_offsets"], "data_offsets", where)};
  if (entry.offsets.size() != 2) Fail("{}: got {} data_offsets, expected 2{}", where, entry.offsets.size(), kAdvice);
  const int64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end) Fail("{}: got data_offsets [{}, {}], expected begin <= end", where, begin, end);
  if (const int64_t needed = NeededBytes(*dtype, entry.tensor.shape, where); needed != end - begin)
    Fail("{}: got data_offsets for {} bytes, expected {} for {} of shape {}; try saving the file again", where,
         end - begin, needed, Name(*dtype), ShapeText(entry.tensor.shape));
  return entry;
}

// The bytes of the entries must follow each other without hole or overlap, from 0 to `available`.
void CheckOffsets(const std::vector<Entry>& entries, int64_t available, const std::string& where) {
  std::vector<const Entry*> in_order;
  for (const Entry& entry : entries) in_order.push_back(&entry);
  std::ranges::stable_sort(in_order, {}, &Entry::offsets);
  int64_t end = 0;
  const std::string* before = nullptr;
  for (const Entry* entry : in_order) {
    const int64_t begin = entry->offsets[0];
    if (begin != end) {
      Fail("{}: tensor '{}': {}: begins at byte {}, expected {}, where {} ends; try saving the file again", where,
           entry->tensor.name, begin < end ? "overlaps" : "leaves a hole", begin, end,
           before == nullptr ? "the header" : "'" + *before + "'");
    }
    end = entry->offsets[1];
    before = &entry->tensor.name;
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

constexpr size_t kDataAlignment = 8;  // of the first tensor: the widest type's

std::string Padded(const nlohmann::ordered_json& header, const std::string& where) try {
  std::string text = header.dump();
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  return text;
} catch (const nlohmann::json::exception&) {
  Fail("{}: got a name or metadata that are not UTF-8, expected UTF-8", where);
}

std::string HeaderOf(const std::vector<TensorView>& tensors, const std::map<std::string, std::string>& metadata,
                     const std::string& where) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == kMetadata || header.contains(tensor.name)) {
      Fail("{}: tensor '{}': the name is taken; try another", where, tensor.name);
    }
    if (ByteCount(tensor.dtype, tensor.shape) != static_cast<int64_t>(tensor.bytes.size())) {
      Fail("{}: tensor '{}': got {} bytes, which is not what {} of shape {} takes", where, tensor.name,
           tensor.bytes.size(), Name(tensor.dtype), ShapeText(tensor.shape));
    }
    header[tensor.name] = {{"dtype", Name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  return Padded(header, where);
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SafetensorsContent ParseSafetensors(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text = HeaderText(file, where);
  // The parser would skip a byte order mark or spaces before the brace.
  if (!text.starts_with('{')) Fail("{}: header does not begin with '{{'; expected a safetensors file", where);
  SafetensorsContent content;
  std::vector<Entry> entries;
  const nlohmann::json header = ParseJson(text, where + ": header");
  for (const auto& [name, members] : header.items()) {
    if (!members.is_object())
      Fail("{}: header: '{}': got {}, expected an object{}", where, name, Shown(members), kAdvice);
    if (name == kMetadata)
      content.metadata = MetadataOf(members, where);
    else
      entries.push_back(EntryOf(name, members, where + ": tensor '" + name + "'"));
  }
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  CheckOffsets(entries, static_cast<int64_t>(data.size()), where);
  for (Entry& entry : entries) {
    const auto begin = static_cast<size_t>(entry.offsets[0]), end = static_cast<size_t>(entry.offsets[1]);
    entry.tensor.bytes = data.subspan(begin, end - begin);
    content.tensors.push_back(std::move(entry.tensor));
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

void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(int64_t, int64_t)>& progress) {
  std::ranges::sort(tensors, {}, [](const TensorView& tensor) { return std::pair(-Bits(tensor.dtype), tensor.name); });
  const std::string header = HeaderOf(tensors, metadata, path.string());
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.Write(AsText(std::as_bytes(std::span(&length, 1))));
  file.Write(header);
  int64_t written = 0, all = 0;
  for (const TensorView& tensor : tensors) all += std::ssize(tensor.bytes);
  for (const TensorView& tensor : tensors) {
    file.Write(AsText(tensor.bytes));
    written += std::ssize(tensor.bytes);
    if (progress) progress(written, all);
  }
  file.Commit();
}

}  // namespace tare
