// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/container.h"

#include <algorithm>
#include <bit>
#include <set>

#include "quant/base/error.h"
#include "quant/file/dtype.h"

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

uint64_t AlignmentOf(const Metadata& metadata) {
  const uint64_t alignment = metadata.Unsigned("general.alignment", kMostAlignment).value_or(32);
  if (!std::has_single_bit(alignment))
    Fail("{}: general.alignment: got {}, expected a power of two", metadata.where(), alignment);
  return alignment;
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

}  // namespace

const Tensor* FindTensor(std::span<const Tensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &Tensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

bool IsGguf(std::string_view first_bytes) { return first_bytes.starts_with(kMagic); }

Content Parse(std::span<const std::byte> file, const std::string& where) {
  Cursor cursor(file, where);
  const std::span<const std::byte> first = cursor.Take(kMagic.size(), "first bytes");
  if (!IsGguf({reinterpret_cast<const char*>(first.data()), first.size()}))
    Fail("{}: got a file that does not begin with GGUF, expected a GGUF file; try downloading it again", where);
  CheckVersion(cursor);
  const auto tensors = cursor.Number<uint64_t>("number of tensors"), keys = cursor.Number<uint64_t>("number of keys");
  Content content;
  content.metadata = Metadata(cursor, keys);
  std::vector<Listed> listed;
  for (uint64_t i = 0; i < tensors; ++i) listed.push_back(ListedAt(cursor));
  const uint64_t alignment = AlignmentOf(content.metadata);
  const uint64_t begin = std::min<uint64_t>((cursor.at() + alignment - 1) / alignment * alignment, file.size());
  Place(listed, file.subspan(begin), alignment, where);
  for (Listed& one : listed) content.tensors.push_back(std::move(one.tensor));
  return content;
}

}  // namespace tare::gguf
