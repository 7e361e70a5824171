// SPDX-License-Identifier: Apache-2.0
// The header, its checks against the file, the header of a new file, and last what is read and written.
#include "quant/file/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr std::string_view kAdvice = "; try downloading or saving the file again";

// A tensor of the header, and where in the data its bytes are.
struct Entry {
  TensorView tensor;
  int64_t begin = 0, end = 0;
};

// What is no list or object is short.
std::string Shown(const nlohmann::json& value) {
  return value.is_structured() ? value.type_name() : value.dump().substr(0, 100);
}

std::vector<int64_t> NaturalNumbers(const nlohmann::json& list, const std::string& where) {
  std::vector<int64_t> numbers;
  if (!list.is_array()) Fail("{}: got {}, expected an array of integers{}", where, Shown(list), kAdvice);
  for (const nlohmann::json& number : list) {
    if (!number.is_number_unsigned() || !std::in_range<int64_t>(number.get<uint64_t>()))
      Fail("{}: got {}, expected integers from 0 to 2^63-1{}", where, Shown(number), kAdvice);
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

DType DTypeIn(const nlohmann::json& name, const std::string& where) {
  const std::string text = name.is_string() ? name.get<std::string>() : Shown(name);
  const std::optional<DType> dtype = name.is_string() ? ParseDType(text) : std::nullopt;
  if (!dtype) Fail("{}: got dtype '{}', expected one that safetensors names (F32, BF16, ...)", where, text);
  return *dtype;
}

Entry EntryOf(const std::string& name, const nlohmann::json& object, const std::string& where) {
  if (!object.is_object()) Fail("{}: got {}, expected an object{}", where, Shown(object), kAdvice);
  constexpr std::array<std::string_view, 3> kKeys{"dtype", "shape", "data_offsets"};
  for (const std::string_view key : kKeys) {
    if (!object.contains(key)) Fail("{}: has no {}{}", where, key, kAdvice);
  }
  for (const auto& [key, value] : object.items()) {
    if (!std::ranges::contains(kKeys, key)) Fail("{}: '{}': got {}, expected no such key", where, key, Shown(value));
  }
  Entry entry{
      .tensor = {name, DTypeIn(object["dtype"], where), NaturalNumbers(object["shape"], where + ": shape"), {}}};
  const std::vector<int64_t> offsets = NaturalNumbers(object["data_offsets"], where + ": data_offsets");
  if (offsets.size() != 2) Fail("{}: got {} data_offsets, expected 2{}", where, offsets.size(), kAdvice);
  entry.begin = offsets[0], entry.end = offsets[1];
  return entry;
}

std::map<std::string, std::string> MetadataOf(const nlohmann::json& object, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!object.is_object()) Fail("{}: got {}, expected an object{}", where, Shown(object), kAdvice);
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) Fail("{}: '{}': got {}, expected a string{}", where, key, Shown(value), kAdvice);
    metadata[key] = value;
  }
  return metadata;
}

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string_view HeaderText(std::span<const std::byte> file, const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  if (file.size() < kLengthBytes)
    Fail("{}: got {} bytes, too few for a safetensors file; try downloading it again", where, file.size());
  const auto length = Load<uint64_t>(file.data());
  if (length > kMaxHeaderBytes)
    Fail("{}: got a header of {} bytes, expected at most {}; it may not be a safetensors file", where, length,
         kMaxHeaderBytes);
  if (length > file.size() - kLengthBytes)
    Fail("{}: truncated: the header alone needs {} bytes, the file has {}; try downloading it again", where,
         kLengthBytes + length, file.size());
  return AsText(file.subspan(kLengthBytes, length));
}

int64_t NeededBytes(DType dtype, std::span<const int64_t> shape, const std::string& where) {
  const std::optional<int64_t> bytes = ByteCount(dtype, shape);
  if (bytes) return *bytes;
  const std::optional<int64_t> count = ElementCount(shape);
  if (!count || *count > INT64_MAX / 64) Fail("{}: got shape {}, too large for any file", where, ShapeText(shape));
  Fail("{}: got {} values of {} bits, expected a number that fills whole bytes", where, *count, Bits(dtype));
}

// Tensors have the bytes they need and, in byte order, follow each other without hole or overlap from 0 to `available`.
void CheckOffsets(const std::vector<Entry>& entries, int64_t available, const std::string& where) {
  std::vector<const Entry*> in_order;
  for (const Entry& entry : entries) {
    const auto& [name, dtype, shape, bytes] = entry.tensor;
    const std::string tensor = where + ": tensor '" + name + "'";
    if (entry.begin > entry.end)
      Fail("{}: got data_offsets [{}, {}], expected begin <= end", tensor, entry.begin, entry.end);
    if (const int64_t needed = NeededBytes(dtype, shape, tensor); needed != entry.end - entry.begin)
      Fail("{}: got data_offsets for {} bytes, expected {} for {} of shape {}; try saving the file again", tensor,
           entry.end - entry.begin, needed, Name(dtype), ShapeText(shape));
    in_order.push_back(&entry);
  }
  std::ranges::stable_sort(in_order, {}, [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
  int64_t end = 0;
  const std::string* before = nullptr;
  for (const Entry* entry : in_order) {
    if (entry->begin != end)
      Fail("{}: tensor '{}': {}: begins at byte {}, expected {}, where {} ends; try saving the file again", where,
           entry->tensor.name, entry->begin < end ? "overlaps" : "leaves a hole", entry->begin, end,
           before == nullptr ? "the header" : "'" + *before + "'");
    end = entry->end;
    before = &entry->tensor.name;
  }
  if (end > available)
    Fail(
        "{}: truncated: the file is {} bytes short of what its header promises (tensor '{}' ends at byte {} of {}); "
        "try downloading it again",
        where, end - available, *before, end, available);
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

std::string HeaderOf(const std::vector<MadeTensor>& tensors, const std::map<std::string, std::string>& metadata,
                     const std::string& where) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const MadeTensor& tensor : tensors) {
    if (tensor.name == "__metadata__" || header.contains(tensor.name))
      Fail("{}: tensor '{}': the name is taken; try another", where, tensor.name);
    const int64_t end = offset + NeededBytes(tensor.dtype, tensor.shape, where + ": tensor '" + tensor.name + "'");
    header[tensor.name] = {{"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return Padded(header, where);
}

}  // namespace

SafetensorsContent ParseSafetensors(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text = HeaderText(file, where);
  // The parser would skip a byte order mark or spaces before the brace.
  if (!text.starts_with('{')) Fail("{}: header does not begin with '{{'; expected a safetensors file", where);
  SafetensorsContent content;
  std::vector<Entry> entries;
  const nlohmann::json header = ParseJson(text, where + ": header");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      content.metadata = MetadataOf(value, where + ": '" + name + "'");
    else
      entries.push_back(EntryOf(name, value, where + ": tensor '" + name + "'"));
  }
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  CheckOffsets(entries, std::ssize(data), where);
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
    content.tensors.push_back(std::move(entry.tensor));
  }
  return content;
}

Safetensors::Safetensors(const std::filesystem::path& path)
    : file_(path), content_(ParseSafetensors(file_.bytes(), path.string())) {}

std::vector<std::string> Safetensors::names() const {
  return tensors() | std::views::transform(&TensorView::name) | std::ranges::to<std::vector>();
}

const TensorView* Safetensors::Find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors(), name, {}, &TensorView::name);
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<MadeTensor> made;
  for (TensorView& tensor : tensors) {
    if (ByteCount(tensor.dtype, tensor.shape) != static_cast<int64_t>(tensor.bytes.size()))
      Fail("{}: tensor '{}': got {} bytes, which is not what {} of shape {} takes", path.string(), tensor.name,
           tensor.bytes.size(), Name(tensor.dtype), ShapeText(tensor.shape));
    made.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                    [bytes = tensor.bytes](std::vector<std::byte>&) { return bytes; }});
  }
  WriteMadeTensors(path, std::move(made), metadata);
}

void WriteMadeTensors(const std::filesystem::path& path, std::vector<MadeTensor> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(int64_t, int64_t)>& progress) {
  std::ranges::sort(tensors, {}, [](const MadeTensor& tensor) { return std::pair(-Bits(tensor.dtype), tensor.name); });
  const std::string header = HeaderOf(tensors, metadata, path.string());
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.Write(AsText(std::as_bytes(std::span(&length, 1))));
  file.Write(header);
  int64_t written = 0, all = 0;
  for (const MadeTensor& tensor : tensors) all += *ByteCount(tensor.dtype, tensor.shape);
  std::vector<std::byte> memory;
  for (const MadeTensor& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.bytes(memory);
    TARE_CHECK(std::ssize(bytes) == *ByteCount(tensor.dtype, tensor.shape));
    file.Write(AsText(bytes));
    written += std::ssize(bytes);
    if (progress) progress(written, all);
  }
  file.Commit();
}

}  // namespace tare
