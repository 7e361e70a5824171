// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_file.h"

#include <algorithm>
#include <cstring>

#include "experiments/arrays/npz.h"
#include "quant/base/error.h"
#include "quant/base/float16.h"
#include "quant/file/hdf5.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

class SafetensorsArrays : public ArrayFile {
 public:
  explicit SafetensorsArrays(const std::filesystem::path& path) : ArrayFile(path), file_(path) {
    for (const TensorView& tensor : file_.tensors()) List({tensor.name, tensor.dtype, tensor.shape});
  }

 protected:
  ArrayValues Load(const ArrayInfo& array) const override { return {array.dtype, file_.Find(array.name)->bytes}; }

 private:
  Safetensors file_;
};

class Hdf5Arrays : public ArrayFile {
 public:
  explicit Hdf5Arrays(const std::filesystem::path& path) : ArrayFile(path), file_(path) {
    for (const std::string& name : file_.datasets()) List({name, file_.Type(name), file_.Shape(name)});
  }

 protected:
  ArrayValues Load(const ArrayInfo& array) const override { return {array.dtype, file_.Copy(array.name)}; }

 private:
  Hdf5Reader file_;
};

// A value of type From at `from`, wherever it is aligned.
template <typename From>
From At(const std::byte* from) {
  From value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename From, typename Convert>
void ReadAs(const std::byte* from, int64_t stride, int64_t count, float* out, const Convert& convert) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(From));
  for (int64_t i = 0; i < count; ++i) out[i] = convert(At<From>(from + i * stride * kBytes));
}

bool IsReadable(DType dtype) {
  using enum DType;
  constexpr DType kReadable[] = {kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64};
  return std::ranges::find(kReadable, dtype) != std::end(kReadable);
}

}  // namespace

void ArrayValues::Read(int64_t first, int64_t stride, int64_t count, float* out) const {
  const std::byte* const from = bytes_.data() + first * (Bits(dtype_) / 8);
  const auto plain = [](auto value) { return static_cast<float>(value); };
  switch (dtype_) {
    case DType::kF32:
      if (stride != 1) return ReadAs<float>(from, stride, count, out, plain);
      std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::kF64:
      return ReadAs<double>(from, stride, count, out, plain);
    case DType::kF16:
      return ReadAs<uint16_t>(from, stride, count, out, FloatFromF16);
    case DType::kBF16:
      return ReadAs<uint16_t>(from, stride, count, out, FloatFromBf16);
    default:
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(Integer(first + i * stride));
  }
}

int64_t ArrayValues::Integer(int64_t index) const {
  const std::byte* const from = bytes_.data() + index * (Bits(dtype_) / 8);
  switch (dtype_) {
    case DType::kI8:
      return At<int8_t>(from);
    case DType::kI16:
      return At<int16_t>(from);
    case DType::kU16:
      return At<uint16_t>(from);
    case DType::kI32:
      return At<int32_t>(from);
    case DType::kU32:
      return At<uint32_t>(from);
    case DType::kI64:
    case DType::kU64:
      return At<int64_t>(from);
    default:
      return At<uint8_t>(from);
  }
}

std::unique_ptr<ArrayFile> ArrayFile::Open(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors") return std::make_unique<SafetensorsArrays>(path);
  if (ending == ".h5" || ending == ".hdf5") return std::make_unique<Hdf5Arrays>(path);
  if (ending == ".npz") return std::make_unique<NpzArrays>(path);
  Fail("{}: got the ending '{}', expected .safetensors, .h5, .hdf5 or .npz", path.string(), ending);
}

ArrayValues ArrayFile::Values(const ArrayInfo& array) const {
  if (!IsReadable(array.dtype))
    Fail("{}: {}: got type {}, expected f16, bf16, f32, f64, integers or booleans; try converting it", path_.string(),
         array.name, Name(array.dtype));
  return Load(array);
}

}  // namespace tare
