// SPDX-License-Identifier: Apache-2.0
// Openers of safetensors and HDF5, conversion to f32, block digests, ArrayValues, ArrayFile, memory arrays, AddArray.
#include "experiments/arrays/array_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "quant/base/find_in.h"
#include "quant/base/float16.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

std::unique_ptr<ArrayFile> OpenSafetensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const Safetensors>(path);
  std::vector<ArrayInfo> arrays;
  for (const TensorView& tensor : file->tensors()) arrays.push_back({tensor.name, tensor.dtype, tensor.shape});
  return std::make_unique<ArrayFile>(path, std::move(arrays), [file](const ArrayInfo& array, auto rows) {
    return MappedValues(file->file(), array, file->Find(array.name)->bytes, rows);
  });
}

std::unique_ptr<ArrayFile> OpenHdf5(const std::filesystem::path& path) {
  const auto file = std::make_shared<const Hdf5Reader>(path);
  std::vector<ArrayInfo> arrays;
  for (const std::string& name : file->datasets()) arrays.push_back({name, file->Type(name), file->Shape(name)});
  return std::make_unique<ArrayFile>(path, std::move(arrays), [file](const ArrayInfo& array, auto rows) {
    return ArrayValues(array.dtype, file->Copy(array.name, rows));
  });
}

template <typename From, typename Convert>
void ReadAs(const std::byte* from, int64_t stride, int64_t count, float* out, const Convert& convert) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(From));
  for (int64_t i = 0; i < count; ++i) out[i] = convert(Load<From>(from + i * stride * kBytes));
}

constexpr int64_t kBlock = 4096;         // 16 KiB: stays in the first cache
constexpr size_t kLanes = 4, kWord = 2;  // values in a word
using Lanes = std::array<uint64_t, kLanes>;

// Padded with zeros; the shape tells how many values there are.
Lanes DigestOf(std::span<const float> values) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  Lanes lanes{1, 2, 3, 4};
  const auto add = [&](const float* from) {
    Lanes words;
    std::memcpy(words.data(), from, sizeof words);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = (std::rotl(lanes[i], 29) + words[i]) * kOdd;
  };
  size_t i = 0;
  for (; i + kLanes * kWord <= values.size(); i += kLanes * kWord) add(&values[i]);
  if (i < values.size()) {
    std::array<float, kLanes * kWord> tail{};
    std::ranges::copy(values.subspan(i), tail.begin());
    add(tail.data());
  }
  return lanes;
}

}  // namespace

bool IsInteger(DType dtype) { return Name(dtype).starts_with('I') || Name(dtype).starts_with('U'); }

void ArrayValues::Read(int64_t first, int64_t stride, int64_t count, float* out) const {
  const std::byte* const from = bytes_.data() + first * (Bits(dtype_) / 8);
  const auto plain = [](auto value) { return static_cast<float>(value); };
  using enum DType;
  if (dtype_ == kF32 && stride == 1)
    return static_cast<void>(std::memcpy(out, from, sizeof(float) * static_cast<size_t>(count)));
  if (dtype_ == kF32) return ReadAs<float>(from, stride, count, out, plain);
  if (dtype_ == kU64) return ReadAs<uint64_t>(from, stride, count, out, plain);
  if (dtype_ == kF16) return ReadAs<uint16_t>(from, stride, count, out, FloatFromF16);
  if (dtype_ == kBF16) return ReadAs<uint16_t>(from, stride, count, out, FloatFromBf16);
  if (dtype_ == kF64)
    return ReadAs<double>(from, stride, count, out, [&](double value) {
      const auto narrow = static_cast<float>(value);
      if (std::isfinite(value) && !std::isfinite(narrow))
        Fail("{}: got {}, expected what f32 can hold, at most 3.4e38; try scaling the array", where_, value);
      return narrow;
    });
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(Integer(first + i * stride));
}

int64_t ArrayValues::Integer(int64_t index) const {
  const std::byte* const from = bytes_.data() + index * (Bits(dtype_) / 8);
  using enum DType;
  if (dtype_ == kI8) return Load<int8_t>(from);
  if (dtype_ == kI16) return Load<int16_t>(from);
  if (dtype_ == kU16) return Load<uint16_t>(from);
  if (dtype_ == kI32) return Load<int32_t>(from);
  if (dtype_ == kU32) return Load<uint32_t>(from);
  return dtype_ == kI64 || dtype_ == kU64 ? Load<int64_t>(from) : Load<uint8_t>(from);
}

std::unique_ptr<ArrayFile> ArrayFile::Open(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors") return OpenSafetensors(path);
  if (ending == ".h5" || ending == ".hdf5") return OpenHdf5(path);
  if (ending == ".npz") return OpenNpz(path);
  if (ending == ".npy") return OpenNpy(path);
  Fail("{}: got the ending '{}', expected .safetensors, .h5, .hdf5, .npz or .npy", path.string(), ending);
}

const ArrayInfo* ArrayFile::Find(std::string_view name) const { return FindIn(arrays_, name, &ArrayInfo::name); }

ArrayValues ArrayFile::Values(const ArrayInfo& array, std::optional<RowRange> rows) const {
  using enum DType;
  constexpr DType kReadable[] = {kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64};
  if (!std::ranges::contains(kReadable, array.dtype))
    Fail("{}: {}: got type {}, expected f16, bf16, f32, f64, integers or booleans; try converting it", path_.string(),
         array.name, Name(array.dtype));
  ArrayValues values = load_(array, rows);
  values.where_ = path_.string() + ": " + array.name;
  return values;
}

std::unique_ptr<ArrayFile> ArraysInMemory(const std::string& name,
                                          const std::vector<std::pair<ArrayInfo, std::span<const std::byte>>>& arrays) {
  std::vector<ArrayInfo> infos;
  std::map<std::string, std::span<const std::byte>> values;
  for (const auto& [info, bytes] : arrays) {
    infos.push_back(info);
    values[info.name] = bytes;
  }
  std::ranges::sort(infos, {}, &ArrayInfo::name);
  return std::make_unique<ArrayFile>(name, std::move(infos), [values = std::move(values)](const auto& array, auto) {
    return ArrayValues(array.dtype, values.at(array.name));
  });
}

ArrayValues MappedValues(const MappedFile& file, const ArrayInfo& array, std::span<const std::byte> bytes,
                         std::optional<RowRange> rows) {
  if (!rows) return {array.dtype, bytes};
  const std::span<const std::byte> part = rows->Of(bytes, array.dtype, array.shape);
  std::vector<std::byte> copy(part.begin(), part.end());
  file.Release(part);
  return {array.dtype, std::move(copy)};
}

void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values) {
  const std::string heading = Formatted("{} {}\n", array.name, ShapeText(array.shape));
  sha.Add(std::as_bytes(std::span(heading)));
  const int64_t count = ElementCount(array.shape).value();
  std::vector<Lanes> digests(static_cast<size_t>(CeilDiv(count, kBlock)));
  ParallelFor(digests.size(), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kBlock;
    std::array<float, kBlock> room;
    const auto part = std::span(room).first(static_cast<size_t>(std::min(kBlock, count - first)));
    values.Read(first, 1, std::ssize(part), part.data());
    digests[block] = DigestOf(part);
  });
  sha.Add(std::as_bytes(std::span(digests)));
}

}  // namespace tare
