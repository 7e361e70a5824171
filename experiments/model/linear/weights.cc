// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/linear/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <ranges>
#include <utility>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/quantized_matrix.h"

namespace tare {
namespace {

WeightType TypeOf(const TensorView& tensor, const std::string& where) {
  if (tensor.dtype == DType::kF32) return WeightType::kF32;
  if (tensor.dtype == DType::kBF16) return WeightType::kBf16;
  if (tensor.dtype == DType::kF16) return WeightType::kF16;
  Fail("{}: tensor '{}': got dtype {}, expected F32, BF16 or F16", where, tensor.name, Name(tensor.dtype));
}

// Bits that are all set in infinities and NaNs.
uint32_t ExponentMask(WeightType type) {
  return type == WeightType::kF32 ? 0x7f800000u : type == WeightType::kBf16 ? 0x7f80u : 0x7c00u;
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

// A bias of zeros, which adds nothing: AutoGPTQ writes one for every matrix that it quantized.
bool IsZeroBias(const std::string& name, const TensorView* tensor) {
  return tensor != nullptr && name.ends_with(".bias") &&
         std::ranges::all_of(tensor->bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Buffers that programs save with weights, and make again or do not need here: positions and scales of caches.
constexpr std::string_view kBuffers[]{".inv_freq", ".position_ids", ".masked_bias", ".q_scale", ".k_scale", ".v_scale"};

std::string_view FirstPart(std::string_view name) { return name.substr(0, name.find('.')); }

bool IsBeside(std::string_view name, const TensorView* tensor, const ModelConfig& config) {
  if (tensor != nullptr && tensor->elements() == 0) return true;
  if (std::ranges::any_of(kBuffers, [&](std::string_view end) { return name.ends_with(end); })) return true;
  const TensorNames& names = FamilyOf(config).names;
  if (name.starts_with("model.mtp_layers.")) return true;  // Motif-3's
  if (name.starts_with(names.layer)) {
    const std::string_view rest = name.substr(names.layer.size());
    const std::optional<int> layer = ParseNumber<int>(FirstPart(rest));
    return layer && *layer >= config.layers;
  }
  const std::string_view parts[]{names.embedding, names.final_norm, names.head, names.layer};
  if (std::ranges::contains(parts, FirstPart(name), FirstPart)) return false;
  // Layers of other names may be the model's own.
  return name.starts_with("mtp.") || std::ranges::none_of(std::views::split(name, '.'), [](const auto& part) {
           return ParseNumber<int>(std::string_view(part)).has_value();
         });
}

bool IsAligned(const TensorView& tensor, WeightType type) {
  return reinterpret_cast<uintptr_t>(tensor.bytes.data()) % ElementBytes(type) == 0;
}

// MLX's name for all experts: PREFIX.experts.{}.NAME as PREFIX.switch_mlp.NAME, its own gate, up and down; else empty.
std::string MlxExperts(std::string_view tensor) {
  constexpr std::string_view kExperts = "experts.{}.";
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};
  const size_t at = tensor.find(kExperts);
  if (at == tensor.npos) return {};
  std::string_view name = tensor.substr(at + kExperts.size());
  for (const auto& [family, mlx] : kNames) name = name == family ? mlx : name;
  return Formatted("{}switch_mlp.{}", tensor.substr(0, at), name);
}

// Experts' matrices one below another in one tensor [experts, out, in], as MLX stores them.
void SplitMlxExperts(const ModelConfig& config, Checkpoint& files) {
  for (int layer = 0; config.experts > 0 && layer < config.layers; ++layer) {
    std::map<std::string, std::vector<Checkpoint::Rows>> stacked;
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      if (!linear.expert || !linear.place->stacked.empty()) continue;
      const std::string name = LayerTensor(config, layer, MlxExperts(linear.place->tensor)) + ".weight";
      stacked[name].push_back({linear.Tensor(config) + ".weight", ShapeOf(linear.place->weight, config).out});
    }
    for (const auto& [name, parts] : stacked) files.Split(name, parts);
  }
}

}  // namespace

std::vector<FusedTensor> FusedTensors(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::vector<FusedTensor> all;
  if (std::ranges::all_of(family.linear, [](const LinearPlace& place) { return place.fused.empty(); })) return all;
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto first = std::ssize(all);
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      const LinearPlace& place = *linear.place;
      if (place.fused.empty()) continue;
      const MatrixShape shape = ShapeOf(place.weight, config);
      for (const char* part : {".weight", ".bias"}) {
        const bool bias = part[1] == 'b';
        if (bias && (place.columns || linear.expert) && place.bias == nullptr) continue;
        const std::string name = LayerTensor(config, layer, place.fused) + (linear.expert ? "" : part);
        auto found = std::find_if(all.begin() + first, all.end(), [&](const FusedTensor& t) { return t.name == name; });
        if (found == all.end()) found = all.insert(all.end(), {.name = name, .parts = {}});
        const bool columns = place.columns && !bias;
        if (columns) found->rows_of_columns = shape.out;
        found->parts.push_back({linear.Tensor(config) + part, columns ? shape.in : shape.out});
      }
    }
  }
  return all;
}

Checkpoint::Experts StackedTensor::Parts(std::string_view suffix) const {
  Checkpoint::Experts parts{.names = experts, .out = shape.out, .in = shape.in};
  for (std::string& part : parts.names) part += suffix;
  return parts;
}

std::vector<StackedTensor> StackedTensors(const ModelConfig& config) {
  std::vector<StackedTensor> all;
  for (int layer = 0; config.experts > 0 && layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      if (linear.place->stacked.empty()) continue;
      if (linear.expert == 0)
        all.push_back({LayerTensor(config, layer, linear.place->stacked), ShapeOf(linear.place->weight, config), {}});
      all.back().experts.push_back(linear.Tensor(config));
    }
  }
  return all;
}

void SplitFused(const ModelConfig& config, Checkpoint& files) {
  SplitMlxExperts(config, files);
  for (const auto& [name, parts, rows] : FusedTensors(config))
    rows > 0 ? files.SplitColumns(name, rows, parts) : files.Split(name, parts);
  for (const StackedTensor& stacked : StackedTensors(config)) {
    files.SplitMatrices(stacked.name, stacked.Parts(".weight"));
    files.SplitMatrices(stacked.name + ".weight", stacked.Parts(".weight"));  // as MXFP4 is read
    files.SplitVectors(stacked.name + "_bias", stacked.Parts(".bias"));
  }
}

Checkpoint OpenSplit(const std::filesystem::path& path, const ModelConfig& config) {
  Checkpoint files(path);
  SplitFused(config, files);
  return files;
}

Weights::Weights(const std::filesystem::path& path, const Projector& projector, int64_t most_kept,
                 WeightReading reading, Shards shards)
    : where_(path.string()), most_kept_(most_kept), reading_(reading), files_(path, shards), projector_(projector) {
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
    std::vector<std::string> others = files_.names();
    std::erase_if(others, [this](const std::string& other) { return taken_.contains(other); });
    const bool within = std::ranges::any_of(others, [&](const auto& other) { return other.ends_with("." + name); });
    const std::set<std::string> lacks = files_.missing();
    Fail("{}: tensor '{}': missing; expected shape {}{}{}", where_, name, ShapeText(shape),
         lacks.empty()
             ? NearestText(name, others)
             : Formatted("; the folder lacks {}, such as {}; try downloading the one that the index names for it",
                         Counted(std::ssize(lacks), "shard"), *lacks.begin()),
         within                     ? "; are these of the text model within a larger one? try tensor-names.json"
         : name == "lm_head.weight" ? "; of a base model, architectures in config.json names its class: LlamaModel"
                                    : "");
  }
  if (tensor->shape != shape)
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json", where_, name, ShapeText(tensor->shape),
         ShapeText(shape));
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
  if (shape != std::array{out, in})
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json", where_, name, ShapeText(shape),
         ShapeText(std::array{out, in}));
  taken_.insert(name);
  return foreign != nullptr ? WeightMatrix(foreign) : WeightMatrix(quantized);
}

WeightMatrix Weights::Kept(const WeightMatrix& matrix, const std::string& name) {
  WeightMatrix kept = matrix;
  kept.values =
      InFloat(matrix, projector_.math(), converted_.emplace_back(), Formatted("{}: tensor '{}'", where_, name));
  if (matrix.foreign != nullptr) matrix.foreign->Release();
  return kept;
}

WeightMatrix Weights::Matrix(const std::string& name, int64_t out, int64_t in) {
  if (const std::optional<WeightMatrix> codes = TakeCodes(name, out, in)) return keeps_ ? Kept(*codes, name) : *codes;
  const TensorView& tensor = Take(name, {out, in}, reading_);
  const DenseMatrix stored{tensor.bytes.data(), TypeOf(tensor, where_), out, in};
  const bool for_calls = !keeps_ && !WeightMatrix(stored).IsReady(projector_.math()) && IsAligned(tensor, stored.type);
  return for_calls ? stored : Native(tensor, out, in);
}

DenseMatrix Weights::Flattened(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView& tensor = Take(name, shape, reading_);
  return Native(tensor, shape.at(0), static_cast<int64_t>(tensor.elements()) / shape.at(0));
}

DenseMatrix Weights::Native(const TensorView& tensor, int64_t out, int64_t in) {
  const WeightType type = TypeOf(tensor, where_);
  if (reading_ == WeightReading::kShapes) return {tensor.bytes.data(), type, out, in};
  const bool takes = projector_.math() == Math::kBf16 ? type == WeightType::kBf16 : projector_.IsNative(type, out, in);
  const DenseMatrix stored{tensor.bytes.data(), type, out, in};
  if (takes && IsAligned(tensor, type)) return stored;
  const DenseMatrix converted = InFloat(stored, projector_.math(), converted_.emplace_back(), where_);
  files_.Release(tensor.name);
  return converted;
}

WeightMatrix Weights::Stored(const std::string& name, int64_t out, int64_t in) {
  if (const std::optional<WeightMatrix> codes = TakeCodes(name, out, in)) return *codes;
  const TensorView& tensor = Take(name, {out, in}, reading_);
  return DenseMatrix{tensor.bytes.data(), TypeOf(tensor, where_), out, in};
}

std::vector<float> Weights::Vector(const std::string& name, const std::vector<int64_t>& shape) {
  if (const ForeignMatrix* codes = files_.FindForeign(name); codes != nullptr && shape.size() == 2) {  // MLX's routers
    TakeCodes(name, shape[0], shape[1]);
    std::vector<float> rows(static_cast<size_t>(shape[0] * shape[1]));
    codes->Rows(0, shape[0], rows.data());
    return rows;
  }
  const TensorView& tensor = Take(name, shape, WeightReading::kWhole);  // small
  std::vector<float> values(tensor.elements());
  RowAsFloat(DenseMatrix{tensor.bytes.data(), TypeOf(tensor, where_), 1, std::ssize(values)}, 0, values.data());
  return values;
}

bool Weights::SameBytes(const std::string& a, const std::string& b) const {
  const TensorView *x = files_.Find(a), *y = files_.Find(b);
  if (x != nullptr && y != nullptr)
    return x->dtype == y->dtype && x->shape == y->shape &&
           (reading_ == WeightReading::kShapes || std::ranges::equal(x->bytes, y->bytes));
  const ForeignMatrix *p = files_.FindForeign(a), *q = files_.FindForeign(b);
  if (p == nullptr || q == nullptr || p->out() != q->out() || p->in() != q->in()) return false;
  std::vector<float> of_p(static_cast<size_t>(p->in())), of_q(of_p.size());
  for (int64_t row = 0; row < p->out() && reading_ != WeightReading::kShapes; ++row) {
    p->Row(row, of_p.data());
    q->Row(row, of_q.data());
    if (of_p != of_q) return false;
  }
  return true;
}

void Weights::CheckAllTaken(const ModelConfig& config) const {
  std::vector<std::string> beside;
  for (const std::string& name : files_.names()) {
    const TensorView* const tensor = files_.Find(name);
    if (taken_.contains(name) || IsZeroBias(name, tensor)) continue;
    if (!IsBeside(name, tensor, config))
      Fail("{}: tensor '{}': not part of the model that config.json describes; {}the family may be wrong", where_, name,
           name.ends_with(".bias")               ? "attention_bias or mlp_bias may be missing there, or "
           : name == FamilyOf(config).names.head ? "tie_word_embeddings or "
                                                 : "");
    beside.push_back(name);
  }
  if (beside.empty()) return;
  const std::string shown = beside[0] + (beside.size() > 1 ? ", " + beside[1] : "");
  Notice(Formatted("{}: {} tensors are not part of the model and left out: {}{}", where_, beside.size(), shown,
                   beside.size() > 2 ? ", ..." : ""));
}

void RequireFinite(const TensorView& tensor, size_t first, size_t count, const std::string& where) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const WeightType type = TypeOf(tensor, where);
  ParallelForBlocks(static_cast<int64_t>(count), kPart, [&](int64_t part, int64_t values) {
    const size_t begin = first + static_cast<size_t>(part), size = static_cast<size_t>(values);
    const std::byte* bytes = tensor.bytes.data() + begin * ElementBytes(type);
    const size_t at = type == WeightType::kF32
                          ? FirstNotFinite<uint32_t>(bytes, size, ExponentMask(type))
                          : FirstNotFinite<uint16_t>(bytes, size, static_cast<uint16_t>(ExponentMask(type)));
    if (at < size)
      Fail("{}: tensor '{}', index {}: NaN or infinity; expected finite weights; try saving the checkpoint again",
           where, tensor.name, begin + at);
  });
}

WeightMatrix StoredMatrix(const TensorView& tensor, const std::string& where) {
  const size_t dimensions = tensor.shape.size();
  if (dimensions < 1 || dimensions > 2 || tensor.elements() == 0)
    Fail("{}: got shape {}, expected a matrix or a vector", where, ShapeText(tensor.shape));
  return DenseMatrix{tensor.bytes.data(), TypeOf(tensor, where), tensor.shape[0],
                     dimensions == 2 ? tensor.shape[1] : 1};
}

WeightMatrix StoredMatrix(const Checkpoint& files, const std::string& name, const std::string& where) {
  if (const ForeignMatrix* matrix = files.FindForeign(name)) return WeightMatrix(matrix);
  const TensorView* const tensor = files.Find(name);
  TARE_CHECK(tensor != nullptr);
  return StoredMatrix(*tensor, where);
}

StoredSize StoredSizeOf(const Checkpoint& checkpoint) {
  StoredSize size{.bytes = static_cast<uint64_t>(checkpoint.total_bytes())};
  const auto add = [&size](int64_t values, int64_t bytes) {
    size.quantized_values += static_cast<uint64_t>(values), size.quantized_bytes += static_cast<uint64_t>(bytes);
  };
  for (const std::string& name : checkpoint.names()) {
    const QuantizedMatrix* const m = checkpoint.FindQuantized(name);
    const ForeignMatrix* const f = checkpoint.FindForeign(name);
    if (m != nullptr) {
      add(m->out * m->in, static_cast<int64_t>(m->Bytes()));
    } else if (f != nullptr && f->HasCodes()) {
      add(f->out() * f->in(), f->bytes());
    } else {
      size.values += f != nullptr ? static_cast<uint64_t>(f->out() * f->in()) : checkpoint.Find(name)->elements();
    }
  }
  size.values += size.quantized_values;
  return size;
}

}  // namespace tare
