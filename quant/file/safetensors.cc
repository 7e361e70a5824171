// SPDX-License-Identifier: Apache-2.0
// The header token by token, its checks against the file, the header of a new file, and last what is read and written.
#include "quant/file/safetensors.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// nlohmann calls one function per token; object depth and the last keys say where the token is.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool start_object(size_t) override {
    if (depth_ == 2 || numbers_ != nullptr) Refuse("an object");
    ++depth_;
    if (depth_ == 2 && !InMetadata()) entry_ = &header_.entries[name_];
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !InMetadata()) EndEntry();
    --depth_;
    return true;
  }

  bool key(std::string& text) override {
    (depth_ == 1 ? name_ : key_) = text;
    if (depth_ == 1) StartName();
    if (depth_ == 2 && InMetadata() && header_.metadata.contains(key_)) {
      Fail("{}: __metadata__ has the key '{}' twice, expected once{}", where_, key_, kAdvice);
    }
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 2 && InMetadata()) {
      header_.metadata[key_] = text;
      return true;
    }
    if (depth_ != 2 || numbers_ != nullptr || key_ != "dtype") Refuse("a string");
    if (entry_->dtype) RefuseTwice();
    entry_->dtype = ParseDType(text);
    if (!entry_->dtype)
      Fail("{}: tensor '{}': got dtype '{}', expected one that safetensors names (F32, BF16, ...)", where_, name_,
           text);
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || InMetadata() || numbers_ != nullptr) Refuse("an array");
    if (key_ != "shape" && key_ != "data_offsets") Refuse("an array");
    auto& list = key_ == "shape" ? entry_->shape : entry_->data_offsets;
    if (list) RefuseTwice();
    numbers_ = &list.emplace();
    return true;
  }

  bool end_array() override {
    if (key_ == "data_offsets" && numbers_->size() != 2) {
      Fail("{}: tensor '{}': got {} data_offsets, expected 2{}", where_, name_, numbers_->size(), kAdvice);
    }
    numbers_ = nullptr;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (numbers_ == nullptr) Refuse("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) Refuse(std::to_string(value));
    numbers_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(number_integer_t value) override { Refuse(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { Refuse(text); }
  bool null() override { Refuse("null"); }
  bool boolean(bool value) override { Refuse(value ? "true" : "false"); }
  bool binary(binary_t&) override { Refuse("binary"); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    Fail("{}: header: not valid JSON at its byte {}{}", where_, position, kAdvice);
  }

 private:
  static constexpr std::string_view kAdvice = "; try downloading or saving the file again";

  bool InMetadata() const { return name_ == "__metadata__"; }

  void StartName() {
    const bool twice = InMetadata() ? metadata_seen_ : header_.entries.contains(name_);
    if (twice) Fail("{}: header: got '{}' twice, expected once{}", where_, name_, kAdvice);
    metadata_seen_ |= InMetadata();
  }

  void EndEntry() {
    const char* missing = !entry_->dtype          ? "dtype"
                          : !entry_->shape        ? "shape"
                          : !entry_->data_offsets ? "data_offsets"
                                                  : nullptr;
    if (missing != nullptr) Fail("{}: tensor '{}': has no {}{}", where_, name_, missing, kAdvice);
  }

  [[noreturn]] void RefuseTwice() {
    Fail("{}: tensor '{}': has the key '{}' twice, expected once{}", where_, name_, key_, kAdvice);
  }

  // A token where another belongs.
  [[noreturn]] void Refuse(const std::string& got) {
    if (depth_ == 0) Fail("{}: header: got {}, expected an object{}", where_, got, kAdvice);
    if (depth_ == 1) Fail("{}: header: '{}': got {}, expected an object{}", where_, name_, got, kAdvice);
    if (InMetadata()) Fail("{}: __metadata__: '{}': got {}, expected a string{}", where_, key_, got, kAdvice);
    const char* expected = key_ == "dtype"          ? "a string"
                           : key_ == "shape"        ? "an array of integers from 0 to 2^63-1"
                           : key_ == "data_offsets" ? "an array of two integers from 0 to 2^63-1"
                                                    : "no such key";
    Fail("{}: tensor '{}': '{}': got {}, expected {}{}", where_, name_, key_, got, expected, kAdvice);
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  int depth_ = 0;  // of objects: 1 in the header, 2 in an entry or the metadata
  std::string name_, key_;
  bool metadata_seen_ = false;
  SafetensorsHeader::Entry* entry_ = nullptr;
  std::vector<int64_t>* numbers_ = nullptr;  // of the array that is open
};

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::string_view HeaderText(std::span<const std::byte> file, const std::string& where) {
  static_assert(std::endian::native == std::endian::little);
  if (file.size() < kLengthBytes)
    Fail("{}: got {} bytes, too few for a safetensors file; try downloading it again", where, file.size());
  const auto length = Load<uint64_t>(file.data());
  if (length > kMaxHeaderBytes) {
    Fail("{}: got a header of {} bytes, expected at most {}; it may not be a safetensors file", where, length,
         kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    Fail("{}: truncated: the header alone needs {} bytes, the file has {}; try downloading it again", where,
         kLengthBytes + length, file.size());
  }
  return AsText(file.subspan(kLengthBytes, length));
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
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      Fail("{}: tensor '{}': the name is taken; try another", where, tensor.name);
    }
    const int64_t end = offset + NeededBytes(tensor.dtype, tensor.shape, where + ": tensor '" + tensor.name + "'");
    header[tensor.name] = {{"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return Padded(header, where);
}

}  // namespace

SafetensorsHeader ParseSafetensorsHeader(std::string_view text, const std::string& where) {
  // The parser would skip a byte order mark or spaces before the brace, and end at a NUL.
  if (!text.starts_with('{')) Fail("{}: header does not begin with '{{'; expected a safetensors file", where);
  if (text.find('\0') != text.npos)
    Fail("{}: header holds a NUL byte; try downloading or saving the file again", where);
  SafetensorsHeader header;
  HeaderReader reader(header, where);
  nlohmann::json::sax_parse(text, &reader);
  return header;
}

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

void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                      const std::map<std::string, std::string>& metadata,
                      const std::function<void(int64_t, int64_t)>& progress) {
  std::vector<MadeTensor> made;
  for (TensorView& tensor : tensors) {
    if (ByteCount(tensor.dtype, tensor.shape) != static_cast<int64_t>(tensor.bytes.size())) {
      Fail("{}: tensor '{}': got {} bytes, which is not what {} of shape {} takes", path.string(), tensor.name,
           tensor.bytes.size(), Name(tensor.dtype), ShapeText(tensor.shape));
    }
    made.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape),
                    [bytes = tensor.bytes](std::vector<std::byte>&) { return bytes; }});
  }
  WriteMadeTensors(path, std::move(made), metadata, progress);
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
