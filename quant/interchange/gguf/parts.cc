// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/parts.h"

#include <functional>
#include <set>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"
#include "quant/file/remembered_hashes.h"

namespace tare::gguf {
namespace {

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

// Of part `number` of the parts that the path is one of.
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

}  // namespace

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
  for (const MappedFile& file : files_) {
    const std::byte* const begin = file.bytes().data();
    if (std::less_equal<>()(begin, bytes.data()) && std::less<>()(bytes.data(), begin + file.bytes().size()))
      return file.Release(static_cast<size_t>(bytes.data() - begin), bytes.size());
  }
}

std::string Parts::ContentHash() const {
  if (files_.size() == 1) return HashOfFile(files_[0]);
  std::vector<std::string> hashes(files_.size());
  ParallelFor(files_.size(), [&](size_t i, int) { hashes[i] = HashOfFile(files_[i]); });
  std::string lines;
  for (size_t i = 0; i < files_.size(); ++i) lines += hashes[i] + "  " + files_[i].path().filename().string() + "\n";
  return Sha256Hex(std::as_bytes(std::span(lines)));
}

}  // namespace tare::gguf
