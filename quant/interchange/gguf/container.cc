// SPDX-License-Identifier: Apache-2.0
// Reads a file and its parts, and writes one.
#include "quant/interchange/gguf/container.h"

#include <bit>
#include <utility>

#include "quant/base/find_in.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/sha256.h"

namespace tare::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMostDimensions = 4;
constexpr uint64_t kMostAlignment = 1 << 20;

// A tensor as the file lists it; its offset is not yet checked.
struct Listed {
  Tensor tensor;
  uint64_t offset = 0, size = 0;
};

void CheckVersion(Cursor& cursor) {
  const auto version = cursor.Number<uint32_t>("version");
  if (version == 2 || version == 3) return;
  if (const uint32_t swapped = std::byteswap(version); swapped == 2 || swapped == 3)
    Fail("{}: version: got a big-endian file, expected a little-endian one; try converting it again", cursor.where());
  Fail("{}: version: got {}, expected 2 or 3; try converting the model again", cursor.where(), version);
}

// Bytes of a tensor of this shape.
uint64_t SizeOf(const Tensor& tensor, const std::string& where) {
  const std::optional<int64_t> values = ElementCount(tensor.shape);
  const int64_t in = tensor.shape.back();
  if (!values || *values < 1 || *values > int64_t{1} << 56)
    Fail("{}: tensor '{}': got shape {}, expected 1 to 2^56 values", where, tensor.name, ShapeText(tensor.shape));
  if (in % tensor.type->values != 0)
    Fail("{}: tensor '{}': got rows of {} values, expected a multiple of {}'s block of {}", where, tensor.name, in,
         tensor.type->name, tensor.type->values);
  return static_cast<uint64_t>(*values / tensor.type->values * tensor.type->bytes);
}

Listed ListedAt(Cursor& cursor) {
  Listed listed;
  Tensor& tensor = listed.tensor;
  tensor.name = cursor.Name("a tensor's name");
  const auto dimensions = cursor.Number<uint32_t>(tensor.name);
  if (dimensions < 1 || dimensions > kMostDimensions)
    Fail("{}: tensor '{}': got {} dimensions, expected 1 to {}", cursor.where(), tensor.name, dimensions,
         kMostDimensions);
  for (uint32_t i = 0; i < dimensions; ++i)
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(cursor.Number<uint64_t>(tensor.name)));
  const auto type = cursor.Number<uint32_t>(tensor.name);
  tensor.type = FindType(type);
  if (tensor.type == nullptr)
    Fail("{}: tensor '{}': got {}, expected {}; try llama-quantize --allow-requantize to one of these", cursor.where(),
         tensor.name, TypeText(type), TypesRead());
  listed.offset = cursor.Number<uint64_t>(tensor.name);
  listed.size = SizeOf(tensor, cursor.where());
  return listed;
}

// Gives the tensors their bytes of `data`.
void Place(std::vector<Listed>& all, std::span<const std::byte> data, uint64_t alignment, const std::string& where) {
  std::set<std::string_view> names;
  for (Listed& listed : all) {
    const std::string_view name = listed.tensor.name;
    if (!names.insert(name).second) Fail("{}: tensor '{}': occurs twice, expected once", where, name);
    if (listed.offset % alignment != 0)
      Fail("{}: tensor '{}': got offset {}, expected a multiple of general.alignment {}", where, name, listed.offset,
           alignment);
    if (listed.size > data.size() || listed.offset > data.size() - listed.size)
      Fail(
          "{}: tensor '{}': got {} bytes at offset {}, expected inside the file's {} bytes of tensors; try "
          "downloading it again",
          where, name, listed.size, listed.offset, data.size());
    listed.tensor.bytes = data.subspan(listed.offset, listed.size);
  }
  std::vector<const Listed*> in_order;
  for (const Listed& listed : all) in_order.push_back(&listed);
  std::ranges::sort(in_order, {}, &Listed::offset);
  for (size_t i = 1; i < in_order.size(); ++i) {
    const Listed &before = *in_order[i - 1], &after = *in_order[i];
    if (before.offset + before.size > after.offset)
      Fail("{}: tensor '{}': got bytes that tensor '{}' has too, expected its own", where, after.tensor.name,
           before.tensor.name);
  }
}

constexpr std::pair<uint32_t, std::string_view> kUnread[]{
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},
    {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"}};

namespace fs = std::filesystem;

constexpr uint64_t kMostParts = 65535;

struct Split {
  uint64_t number = 0, count = 1;
};

Split SplitOf(const Metadata& metadata) {
  const Split split{metadata.Unsigned("split.no", kMostParts).value_or(0),
                    metadata.Unsigned("split.count", kMostParts).value_or(1)};
  if (split.count == 0) return {};  // as llama.cpp writes it into a file that was merged
  if (split.number >= split.count)
    Fail("{}: split.no: got {}, expected less than split.count {}", metadata.where(), split.number, split.count);
  return split;
}

// The path of part `number`, where `path` is one of the parts.
fs::path PartAt(const fs::path& path, const Split& split, uint64_t number) {
  const std::string name = path.filename(), end = Formatted("-{:05}-of-{:05}.gguf", split.number + 1, split.count);
  if (!name.ends_with(end))
    Fail("{}: got part {} of {}, expected a name that ends in {}, by which the other parts are found; try its own name",
         path.string(), split.number + 1, split.count, end);
  return path.parent_path() /
         (name.substr(0, name.size() - end.size()) + Formatted("-{:05}-of-{:05}.gguf", number + 1, split.count));
}

FirstPart Open(const fs::path& path) {
  MappedFile file(path);
  Content content = Parse(file.bytes(), path.string());
  return {std::move(file), std::move(content)};
}

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

std::string TypeText(uint32_t id) {
  std::string_view name = "unknown";
  if (const TypeInfo* info = FindType(id)) name = info->name;
  for (const auto& [unread, its_name] : kUnread) {
    if (unread == id) name = its_name;
  }
  return Formatted("{} (type {})", name, id);
}

const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name) {
  return FindIn(tensors, name, &Tensor::name);
}

Content Parse(std::span<const std::byte> file, const std::string& where) {
  Cursor cursor(file, where);
  if (AsText(cursor.Take(kMagic.size(), "first bytes")) != kMagic)
    Fail("{}: got a file that does not begin with GGUF, expected a GGUF file; try downloading it again", where);
  CheckVersion(cursor);
  const auto tensors = cursor.Number<uint64_t>("number of tensors"), keys = cursor.Number<uint64_t>("number of keys");
  Content content;
  content.metadata = Metadata(cursor, keys);
  std::vector<Listed> listed;
  for (uint64_t i = 0; i < tensors; ++i) listed.push_back(ListedAt(cursor));
  const uint64_t alignment = content.metadata.Unsigned("general.alignment", kMostAlignment).value_or(32);
  if (!std::has_single_bit(alignment)) Fail("{}: general.alignment: got {}, expected a power of two", where, alignment);
  const uint64_t begin = std::min<uint64_t>((cursor.at() + alignment - 1) / alignment * alignment, file.size());
  Place(listed, file.subspan(begin), alignment, where);
  for (Listed& one : listed) content.tensors.push_back(std::move(one.tensor));
  return content;
}

FirstPart OpenFirst(const fs::path& path) {
  FirstPart given = Open(path);
  const Split split = SplitOf(given.content.metadata);
  return split.number == 0 ? std::move(given) : Open(PartAt(path, split, 0));
}

Parts::Parts(const fs::path& path) {
  const Split split = SplitOf(Open(path).content.metadata);
  std::set<std::string_view> names;
  uint64_t expected = 0;
  for (uint64_t number = 0; number < split.count; ++number) {
    FirstPart part = Open(split.count == 1 ? path : PartAt(path, split, number));
    const Metadata& metadata = part.content.metadata;
    const std::string where = metadata.where();
    if (const Split own = SplitOf(metadata); own.number != number || own.count != split.count)
      Fail("{}: got part {} of {}, expected part {} of {}", where, own.number + 1, own.count, number + 1, split.count);
    for (Tensor& tensor : part.content.tensors) {
      if (!names.insert(tensor.name).second)
        Fail("{}: tensor '{}': is in another part too, expected once", where, tensor.name);
      tensors_.push_back(std::move(tensor));
    }
    if (number == 0) {
      metadata_ = metadata;
      expected = metadata_.Unsigned("split.tensors.count", ~uint64_t{0} >> 1).value_or(0);
    }
    files_.push_back(std::move(part.file));
  }
  if (split.count > 1 && expected != tensors_.size())
    Fail("{}: split.tensors.count: got {} tensors in {} parts, expected {}", metadata_.where(), tensors_.size(),
         split.count, expected);
}

void Parts::Release(std::span<const std::byte> bytes) const {
  for (const MappedFile& file : files_) file.Release(bytes);  // the one that they are in
}

std::string Parts::ContentHash() const {
  if (files_.size() == 1) return HashOfFile(files_[0]);
  std::vector<std::string> hashes(files_.size());
  ParallelFor(files_.size(), [&](size_t i, int) { hashes[i] = HashOfFile(files_[i]); });
  std::string lines;
  for (size_t i = 0; i < files_.size(); ++i) lines += hashes[i] + "  " + files_[i].path().filename().string() + "\n";
  return Sha256Hex(std::as_bytes(std::span(lines)));
}

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
