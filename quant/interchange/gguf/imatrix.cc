// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/imatrix.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"

namespace tare::gguf {
namespace {

using Entry = Imatrix::Entry;

constexpr std::pair<std::string_view, std::vector<float> Entry::*> kParts[]{{".in_sum2", &Entry::sums},
                                                                            {".counts", &Entry::counts}};

std::vector<float> Floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
  return values;
}

void ReadGguf(std::span<const std::byte> bytes, const std::string& where, Imatrix& to) {
  const auto [metadata, tensors] = Parse(bytes, where);
  if (const std::string_view type = metadata.Text("general.type").value_or("none"); type != "imatrix")
    Fail("{}: general.type: got {}, expected imatrix; try a file of llama-imatrix", where, Shown(type));
  if (const auto names = metadata.Texts("imatrix.datasets")) to.datasets.assign(names->begin(), names->end());
  to.chunk_count = static_cast<int64_t>(metadata.Unsigned("imatrix.chunk_count", UINT32_MAX).value_or(0));
  to.chunk_size = static_cast<int64_t>(metadata.Unsigned("imatrix.chunk_size", UINT32_MAX).value_or(0));
  for (const Tensor& tensor : tensors) {
    for (const auto& [suffix, part] : kParts) {
      if (!tensor.name.ends_with(suffix)) continue;
      if (tensor.type->type != TensorType::kF32)
        Fail("{}: tensor '{}': got {}, expected F32", where, tensor.name, tensor.type->name);
      to.entries[std::string(tensor.name.substr(0, tensor.name.size() - suffix.size()))].*part = Floats(tensor.bytes);
    }
  }
}

void ReadBinary(std::span<const std::byte> bytes, const std::string& where, Imatrix& to) {
  Cursor cursor(bytes, where);
  const auto size = [&](std::string_view what) {
    const auto number = cursor.Number<int32_t>(what);
    if (number < 0) Fail("{}: {}: got {}, expected 0 or more", where, what, number);
    return static_cast<uint64_t>(number);
  };
  const auto text = [&](std::string_view what) { return std::string(AsText(cursor.Take(size(what), what))); };
  for (uint64_t left = size("number of weights"); left > 0; --left) {
    const std::string name = text("a weight's name"), shown = Shown(name);
    Entry& entry = to.entries[name];
    if (!entry.counts.empty()) Fail("{}: '{}': occurs twice, expected once", where, shown);
    entry.counts = {static_cast<float>(size(shown))};
    entry.sums = Floats(cursor.Take(size(shown) * sizeof(float), shown));
  }
  if (cursor.left() > 0) to.chunk_count = static_cast<int64_t>(size("number of chunks"));
  if (cursor.left() > 0) to.datasets.push_back(text("a data set's name"));
  if (cursor.left() > 0) Fail("{}: got {} bytes after the last name, expected none", where, cursor.left());
}

void Check(const Imatrix& matrix, const std::string& where) {
  if (matrix.entries.empty()) Fail("{}: got no weight, expected sums of some; try a file of llama-imatrix", where);
  for (const auto& [name, entry] : matrix.entries) {
    const size_t sums = entry.sums.size(), counts = entry.counts.size();
    if (sums == 0 || counts == 0 || sums % counts != 0)
      Fail("{}: '{}': got {} sums and {} counts, expected as many sums for each count", where, Shown(name), sums,
           counts);
    for (const auto& [suffix, part] : kParts) {
      for (const float value : entry.*part) {
        if (!std::isfinite(value) || value < 0)
          Fail("{}: '{}{}': got {}, expected finite values from 0 on", where, Shown(name), suffix, value);
      }
    }
  }
}

void WriteAsGguf(const Imatrix& matrix, const std::filesystem::path& path) {
  MetadataWriter metadata(path.string());
  metadata.Text("general.type", "imatrix");
  metadata.Texts("imatrix.datasets", matrix.datasets);
  metadata.Number("imatrix.chunk_count", matrix.chunk_count);
  metadata.Number("imatrix.chunk_size", matrix.chunk_size);
  std::vector<NewTensor> tensors;
  for (const auto& [name, entry] : matrix.entries) {
    const auto experts = std::ssize(entry.counts);
    for (const auto& [suffix, part] : kParts) {
      const std::span<const float> values = entry.*part;
      std::vector<int64_t> shape{std::ssize(values) / experts};
      if (experts > 1) shape.insert(shape.begin(), experts);
      const auto fill = [values](auto bytes) { std::ranges::copy(std::as_bytes(values), bytes.begin()); };
      tensors.push_back({name + std::string(suffix), FindType("F32"), shape, fill});
    }
  }
  WriteGguf(path, metadata, tensors, {});
}

void WriteAsBinary(const Imatrix& matrix, const std::filesystem::path& path) {
  std::string bytes;
  const auto number = [&bytes](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto text = [&](const std::string& value) { number(static_cast<int32_t>(value.size())), bytes += value; };
  number(static_cast<int32_t>(matrix.entries.size()));
  const auto rows = static_cast<double>(std::max<int64_t>(matrix.chunk_size, 1));
  for (const auto& [name, entry] : matrix.entries) {
    const auto calls = static_cast<int32_t>(std::min(std::ceil(std::ranges::max(entry.counts) / rows), 0x1p30));
    text(name), number(calls), number(static_cast<int32_t>(entry.sums.size()));
    for (size_t expert = 0; expert < entry.counts.size(); ++expert) {
      for (const float mean : entry.Means(expert, entry.counts.size())) number(mean * static_cast<float>(calls));
    }
  }
  number(static_cast<int32_t>(matrix.chunk_count)), text(matrix.datasets.empty() ? "" : matrix.datasets.back());
  WriteFileAtomically(path, bytes);
}

}  // namespace

std::vector<float> Imatrix::Entry::Means(size_t expert, size_t experts) const {
  const size_t channels = sums.size() / experts;
  const float count = counts[counts.size() == 1 ? 0 : expert];
  std::vector<float> means(channels, 1.0f);
  for (size_t i = 0; count > 0 && i < channels; ++i) means[i] = sums[expert * channels + i] / count;
  return means;
}

Imatrix ReadImatrix(const std::filesystem::path& path) {
  const MappedFile file(path);
  Imatrix read{.where = path.string()};
  (Beginning(path, 4) == "GGUF" ? ReadGguf : ReadBinary)(file.bytes(), path.string(), read);
  Check(read, path.string());
  return read;
}

void WriteImatrix(const Imatrix& matrix, const std::filesystem::path& path) {
  Check(matrix, path.string());
  (path.extension() == ".dat" ? WriteAsBinary : WriteAsGguf)(matrix, path);
}

}  // namespace tare::gguf
