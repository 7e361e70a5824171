// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "experiments/model/fused_tensors.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/float16.h"
#include "quant/base/formatted.h"
#include "quant/base/nearest.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

WeightType TypeOf(const TensorView& tensor, const std::string& where) {
  switch (tensor.dtype) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kBF16:
      return WeightType::kBf16;
    case DType::kF16:
      return WeightType::kF16;
    default:
      Fail("{}: tensor '{}': got dtype {}, expected F32, BF16 or F16", where, tensor.name, Name(tensor.dtype));
  }
}

WeightType FactorType(Math math) { return math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32; }

size_t ElementBytes(WeightType type) { return type == WeightType::kF32 ? 4 : 2; }

// Bits that are all set in infinities and NaNs.
uint32_t ExponentMask(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 0x7f800000u;
    case WeightType::kBf16:
      return 0x7f80u;
    case WeightType::kF16:
      return 0x7c00u;
  }
  TARE_CHECK(false);
}

// Index of the first value that is not finite, or count. Bytes need no alignment.
template <typename Bits>
size_t FirstNotFinite(const std::byte* bytes, size_t count, Bits mask) {
  constexpr size_t kStep = 4096;
  for (size_t begin = 0; begin < count; begin += kStep) {
    const size_t size = std::min(kStep, count - begin);
    Bits chunk[kStep];
    std::memcpy(chunk, bytes + begin * sizeof(Bits), size * sizeof(Bits));
    Bits bad = 0;  // as wide as the values: compilers make vectors of it
    for (size_t i = 0; i < size; ++i) bad |= static_cast<Bits>((chunk[i] & mask) == mask ? ~Bits{0} : Bits{0});
    if (bad == 0) continue;
    for (size_t i = 0; i < size; ++i) {
      if ((chunk[i] & mask) == mask) return begin + i;
    }
  }
  return count;
}

float ValueAt(const std::byte* bytes, WeightType type, size_t i) {
  if (type == WeightType::kF32) {
    float value;
    std::memcpy(&value, bytes + 4 * i, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * i, 2);
  return type == WeightType::kBf16 ? FloatFromBf16(bits) : FloatFromF16(bits);
}

// A bias of zeros, which adds nothing: AutoGPTQ writes one for every matrix that it quantized.
bool IsZeroBias(const std::string& name, const TensorView* tensor) {
  return tensor != nullptr && name.ends_with(".bias") &&
         std::ranges::all_of(tensor->bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

bool IsAligned(const TensorView& tensor, WeightType type) {
  return reinterpret_cast<uintptr_t>(tensor.bytes.data()) % ElementBytes(type) == 0;
}

}  // namespace

Weights::Weights(const std::filesystem::path& path, const Projector& projector, int64_t most_kept,
                 WeightReading reading)
    : where_(path.string()), most_kept_(most_kept), reading_(reading), files_(path), projector_(projector) {
  DecideWhatIsKept();
}

void Weights::DecideWhatIsKept() {
  int64_t values = 0;
  for (const std::string& name : files_.names()) {
    if (const QuantizedMatrix* matrix = files_.FindQuantized(name)) values += matrix->out * matrix->in;
    if (const ForeignMatrix* matrix = files_.FindForeign(name)) values += matrix->out() * matrix->in();
    const TensorView* const tensor = files_.Find(name);
    if (projector_.math() == Math::kF32 || tensor == nullptr || tensor->shape.size() != 2) continue;
    if (tensor->dtype == DType::kF32 || tensor->dtype == DType::kF16)
      values += static_cast<int64_t>(tensor->elements());
  }
  keeps_ = values <= most_kept_ && reading_ != WeightReading::kShapes;
}

Weights& Weights::Split(const ModelConfig& config) {
  SplitFused(config, files_);
  DecideWhatIsKept();
  return *this;
}

const TensorView& Weights::Take(const std::string& name, const std::vector<int64_t>& shape, WeightReading reading) {
  const TensorView* tensor = files_.Find(name);
  if (tensor == nullptr && files_.Has(name))
    Fail("{}: tensor '{}': got a quantized matrix, expected values of shape {}", where_, name, ShapeText(shape));
  if (tensor == nullptr) {
    std::vector<std::string> others;
    for (const std::string& other : files_.names()) {
      if (!taken_.contains(other)) others.push_back(other);
    }
    Fail("{}: tensor '{}': missing; expected shape {}{}", where_, name, ShapeText(shape), NearestText(name, others));
  }
  if (tensor->shape != shape) {
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json", where_, name, ShapeText(tensor->shape),
         ShapeText(shape));
  }
  TypeOf(*tensor, where_);  // one that it can have
  if (reading == WeightReading::kWhole) RequireFinite(*tensor, 0, tensor->elements(), where_);
  taken_.insert(name);
  return *tensor;
}

std::optional<WeightMatrix> Weights::TakeCodes(const std::string& name, int64_t out, int64_t in) {
  const QuantizedMatrix* const quantized = files_.FindQuantized(name);
  const ForeignMatrix* const foreign = files_.FindForeign(name);
  if (quantized == nullptr && foreign == nullptr) return std::nullopt;
  const std::array shape{foreign ? foreign->out() : quantized->out, foreign ? foreign->in() : quantized->in};
  if (shape != std::array{out, in}) {
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json", where_, name, ShapeText(shape),
         ShapeText(std::array{out, in}));
  }
  taken_.insert(name);
  return WeightMatrix{nullptr, WeightType::kF32, out, in, quantized, foreign};
}

WeightMatrix Weights::Kept(const WeightMatrix& matrix, const std::string& name) {
  const WeightMatrix kept =
      InFloat(matrix, projector_.math(), converted_.emplace_back(), Formatted("{}: tensor '{}'", where_, name));
  if (matrix.foreign != nullptr) matrix.foreign->Release();
  return kept;
}

WeightMatrix Weights::Matrix(const std::string& name, int64_t out, int64_t in) {
  if (const std::optional<WeightMatrix> codes = TakeCodes(name, out, in)) return keeps_ ? Kept(*codes, name) : *codes;
  const TensorView& tensor = Take(name, {out, in}, reading_);
  const WeightMatrix stored{tensor.bytes.data(), TypeOf(tensor, where_), out, in};
  const bool for_calls = !keeps_ && IsMadeForCalls(stored, projector_.math()) && IsAligned(tensor, stored.type);
  return for_calls ? stored : Native(tensor, out, in);
}

WeightMatrix Weights::Flattened(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView& tensor = Take(name, shape, reading_);
  return Native(tensor, shape.at(0), static_cast<int64_t>(tensor.elements()) / shape.at(0));
}

WeightMatrix Weights::Native(const TensorView& tensor, int64_t out, int64_t in) {
  const WeightType type = TypeOf(tensor, where_);
  if (reading_ == WeightReading::kShapes) return {tensor.bytes.data(), type, out, in};
  const bool takes = projector_.math() == Math::kBf16 ? type == WeightType::kBf16 : projector_.IsNative(type, out);
  if (!takes || !IsAligned(tensor, type)) return Converted(tensor, FactorType(projector_.math()), out, in);
  return {tensor.bytes.data(), type, out, in};
}

WeightMatrix Weights::Stored(const std::string& name, int64_t out, int64_t in) {
  if (const std::optional<WeightMatrix> codes = TakeCodes(name, out, in)) return *codes;
  const TensorView& tensor = Take(name, {out, in}, reading_);
  return {tensor.bytes.data(), TypeOf(tensor, where_), out, in};
}

WeightMatrix Weights::Converted(const TensorView& tensor, WeightType to, int64_t out, int64_t in) {
  const WeightMatrix stored{tensor.bytes.data(), TypeOf(tensor, where_), out, in};
  const WeightMatrix matrix = FillMatrix(converted_.emplace_back(), to, out, in,
                                         [&](int64_t row, float* values) { RowAsFloat(stored, row, values); });
  files_.Release(tensor.name);
  return matrix;
}

std::vector<float> Weights::Vector(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView& tensor = Take(name, shape, WeightReading::kWhole);  // small
  std::vector<float> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = ValueAt(tensor.bytes.data(), TypeOf(tensor, where_), i);
  return values;
}

bool Weights::SameBytes(const std::string& a, const std::string& b) const {
  const TensorView* x = files_.Find(a);
  const TensorView* y = files_.Find(b);
  return x != nullptr && y != nullptr && x->dtype == y->dtype && x->shape == y->shape &&
         (reading_ == WeightReading::kShapes || std::ranges::equal(x->bytes, y->bytes));
}

void Weights::CheckAllTaken() const {
  for (const std::string& name : files_.names()) {
    if (!taken_.contains(name) && !IsZeroBias(name, files_.Find(name))) {
      Fail(
          "{}: tensor '{}': not part of the model that config.json describes; a key may be missing there "
          "(attention_bias, mlp_bias, tie_word_embeddings), or the family may be wrong",
          where_, name);
    }
  }
}

void RequireFinite(const TensorView& tensor, size_t first, size_t count, const std::string& where) {
  constexpr size_t kPart = size_t{1} << 20;
  const WeightType type = TypeOf(tensor, where);
  ParallelFor((count + kPart - 1) / kPart, [&](size_t part, int) {
    const size_t begin = first + part * kPart, size = std::min(kPart, first + count - begin);
    const std::byte* bytes = tensor.bytes.data() + begin * ElementBytes(type);
    const size_t at = type == WeightType::kF32
                          ? FirstNotFinite<uint32_t>(bytes, size, ExponentMask(type))
                          : FirstNotFinite<uint16_t>(bytes, size, static_cast<uint16_t>(ExponentMask(type)));
    if (at < size) {
      Fail("{}: tensor '{}', index {}: NaN or infinity; expected finite weights; try saving the checkpoint again",
           where, tensor.name, begin + at);
    }
  });
}

WeightMatrix StoredMatrix(const TensorView& tensor, const std::string& where) {
  const size_t dimensions = tensor.shape.size();
  if (dimensions < 1 || dimensions > 2 || tensor.elements() == 0)
    Fail("{}: got shape {}, expected a matrix or a vector", where, ShapeText(tensor.shape));
  return {tensor.bytes.data(), TypeOf(tensor, where), tensor.shape[0], dimensions == 2 ? tensor.shape[1] : 1};
}

WeightMatrix StoredMatrix(const Checkpoint& files, const std::string& name, const std::string& where) {
  if (const ForeignMatrix* matrix = files.FindForeign(name))
    return {nullptr, WeightType::kF32, matrix->out(), matrix->in(), nullptr, matrix};
  const TensorView* const tensor = files.Find(name);
  TARE_CHECK(tensor != nullptr);
  return StoredMatrix(*tensor, where);
}

WeightMatrix FillRows(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                      const std::function<void(int64_t, int64_t, float*)>& fill) {
  memory.Reserve(static_cast<size_t>(out * in) * ElementBytes(type));
  char* data = memory.data();
  constexpr int64_t kRows = 32;  // neighbours, which may share words of the file: on one thread
  ParallelFor(static_cast<size_t>((out + kRows - 1) / kRows), [&](size_t unit, int) {
    const int64_t first = static_cast<int64_t>(unit) * kRows, count = std::min(kRows, out - first);
    char* const target = data + static_cast<size_t>(first * in) * ElementBytes(type);
    if (type != WeightType::kBf16) return fill(first, count, reinterpret_cast<float*>(target));
    std::vector<float> values(static_cast<size_t>(count * in));
    fill(first, count, values.data());
    ToBf16(values.data(), values.size(), reinterpret_cast<uint16_t*>(target));
  });
  return {data, type, out, in};
}

WeightMatrix FillMatrix(AlignedBuffer<char>& memory, WeightType type, int64_t out, int64_t in,
                        const std::function<void(int64_t, float*)>& fill) {
  return FillRows(memory, type, out, in, [&](int64_t first, int64_t count, float* values) {
    for (int64_t r = 0; r < count; ++r) fill(first + r, values + r * in);
  });
}

WeightMatrix InFloat(const WeightMatrix& matrix, Math math, AlignedBuffer<char>& memory, const std::string& where) {
  const bool is_foreign = matrix.data == nullptr && matrix.foreign != nullptr;
  WeightMatrix made =
      FillRows(memory, FactorType(math), matrix.out, matrix.in, [&](int64_t first, int64_t count, float* y) {
        if (is_foreign) return matrix.foreign->Rows(first, count, y);
        for (int64_t r = 0; r < count; ++r) RowAsFloat(matrix, first + r, y + r * matrix.in, where);
      });
  made.quantized = matrix.quantized;
  made.foreign = matrix.foreign;
  return made;
}

std::optional<WeightMatrix> StoredColumns(const WeightMatrix& matrix, const Projector& projector) {
  if (matrix.data != nullptr || matrix.foreign == nullptr) return std::nullopt;
  const std::optional<ForeignMatrix::Columns> columns = matrix.foreign->columns();
  if (!columns) return std::nullopt;
  WeightMatrix stored = matrix;
  stored.data = columns->values;
  stored.order = WeightOrder::kColumns;
  using Type = ForeignMatrix::Columns::Type;
  stored.type = columns->type == Type::kF32    ? WeightType::kF32
                : columns->type == Type::kBf16 ? WeightType::kBf16
                                               : WeightType::kF16;
  const bool aligned = reinterpret_cast<uintptr_t>(stored.data) % ElementBytes(stored.type) == 0;
  const bool factors = projector.math() == Math::kF32 || stored.type == WeightType::kBf16;
  return aligned && factors && projector.IsNative(stored.type, stored.out, stored.order) ? std::optional(stored)
                                                                                         : std::nullopt;
}

void RowAsFloat(const WeightMatrix& matrix, int64_t row, float* y, const std::string& where) {
  if (matrix.data == nullptr && matrix.foreign != nullptr) return matrix.foreign->Row(row, y);
  if (matrix.data == nullptr) return DequantizeRow(*matrix.quantized, row, y, where);
  const auto* bytes = static_cast<const std::byte*>(matrix.data) + row * matrix.in * ElementBytes(matrix.type);
  switch (matrix.type) {  // a loop each, which compilers make vectors of
    case WeightType::kF32:
      std::memcpy(y, bytes, static_cast<size_t>(matrix.in) * sizeof(float));
      return;
    case WeightType::kBf16:
      for (int64_t i = 0; i < matrix.in; ++i) y[i] = ValueAt(bytes, WeightType::kBf16, i);
      return;
    case WeightType::kF16:
      for (int64_t i = 0; i < matrix.in; ++i) y[i] = ValueAt(bytes, WeightType::kF16, i);
      return;
  }
}

}  // namespace tare
