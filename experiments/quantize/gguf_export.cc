// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/gguf_export.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiments/model/family.h"
#include "experiments/model/model.h"
#include "experiments/model/rotary.h"
#include "experiments/passes/generate.h"
#include "experiments/quantize/gguf_metadata.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/squared_error.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"
#include "quant/interchange/gguf/blocks.h"
#include "quant/interchange/gguf/code_blocks.h"
#include "quant/interchange/gguf/container_writer.h"
#include "quant/interchange/gguf/quantize_blocks.h"
#include "quant/interchange/gguf/vocabulary_writer.h"

namespace tare {
namespace {

using gguf::NewTensor;
using gguf::TensorType;
using gguf::TypeInfo;

// general.file_type (llama.h, enum llama_ftype), which only describes.
constexpr std::pair<TensorType, int> kFileTypes[]{
    {TensorType::kF32, 0},   {TensorType::kF16, 1},   {TensorType::kQ4_0, 2},
    {TensorType::kQ4_1, 3},  {TensorType::kQ8_0, 7},  {TensorType::kQ5_0, 8},
    {TensorType::kQ5_1, 9},  {TensorType::kBF16, 32}, {TensorType::kMXFP4, 38},
    {TensorType::kQ4_K, 14}, {TensorType::kQ5_K, 16}, {TensorType::kQ6_K, 18}};  // of one type: its "S"

// What takes the place of a type where rows are no whole blocks of it, as in llama.cpp.
constexpr std::pair<TensorType, TensorType> kInstead[]{{TensorType::kQ4_K, TensorType::kQ5_0},
                                                       {TensorType::kQ5_K, TensorType::kQ5_1},
                                                       {TensorType::kQ6_K, TensorType::kQ8_0}};

const TypeInfo& InfoOf(TensorType type) { return *gguf::FindType(static_cast<uint32_t>(type)); }

const TypeInfo& InsteadOf(const TypeInfo& type) {
  for (const auto& [wide, narrow] : kInstead) {
    if (type.type == wide) return InfoOf(narrow);
  }
  return InfoOf(TensorType::kF16);
}

double BitsOf(const TypeInfo& type) { return 8.0 * static_cast<double>(type.bytes) / static_cast<double>(type.values); }

// Rows of a stored matrix, or the values of a vector as one row.
struct Source {
  std::string name;
  int64_t out = 0, in = 0;
  ReadRow read;
  const QuantizedMatrix* codes = nullptr;  // where they are Tare's own
};

class GgufJob {
 public:
  GgufJob(const std::filesystem::path& path, const std::string& type, std::string_view version)
      : path_(path),
        version_(version),
        where_(path.string()),
        model_(path, Math::kF32, 0),
        config_(model_.config()),
        architecture_(GgufArchitectureOf(config_, where_)),
        type_(*gguf::FindType(type)),
        metadata_(where_) {}

  GgufSummary Write(const std::filesystem::path& out, const Progress& progress) {
    AddKeys();
    AddTensors();
    gguf::WriteGguf(out, metadata_, tensors_, [&](int64_t done, int64_t total) {
      Report(progress, done, total, "bytes");
      ThrowIfStopped();
    });
    summary_.relative_error = size_ > 0 ? std::sqrt(error_ / size_) : 0;
    return std::move(summary_);
  }

 private:
  void AddKeys() {
    metadata_.Text("general.architecture", architecture_.name);
    metadata_.Text("general.type", "model");
    metadata_.Text("general.name", ModelName(path_));
    metadata_.Number("general.file_type",
                     std::ranges::find(kFileTypes, type_.type, [](const auto& entry) { return entry.first; })->second);
    metadata_.Number("general.quantization_version", 2);
    AddNote();
    AddModelKeys(config_, architecture_, metadata_);
    AddTokenizer();
  }

  // What was done, as the file's provenance has it.
  void AddNote() {
    const Provenance p = ProvenanceOf(model_.files(), path_);
    metadata_.Text("general.description", Formatted("{}, written in {} by Tare {}", p.source, type_.name, version_));
    const std::pair<const char*, const std::string*> parts[]{{"source", &p.source},
                                                             {"source_sha256", &p.source_sha256},
                                                             {"plan", &p.plan},
                                                             {"method", &p.method},
                                                             {"calibration", &p.calibration}};
    metadata_.Text("tare.version", version_);
    for (const auto& [key, text] : parts) {
      if (!text->empty()) metadata_.Text(Formatted("tare.{}", key), *text);
    }
  }

  void AddTokenizer() {
    const auto file = [&](const std::string& name) { return CheckpointText(path_, name); };
    gguf::VocabularyUse use{.tokens = config_.vocabulary, .before = {}, .after = {}, .ends = {}};
    for (const int32_t id : EndTokens(path_)) use.ends.push_back(id);
    if (!TokenizersOf(path_).empty()) {
      const Tokenizer tokenizer = Tokenizer::Load(path_);
      use.before = tokenizer.before();
      use.after = tokenizer.after();
    }
    summary_.has_tokenizer = gguf::AddVocabulary(file, use, metadata_);
    if (!summary_.has_tokenizer) metadata_.Text("tokenizer.ggml.model", "no_vocab");
  }

  void AddTensors() {
    const Family& family = FamilyOf(config_);
    if (config_.rotary.type == RotaryConfig::Type::kLlama3) AddRotaryDivisors();
    AddMatrix(std::string(family.names.embedding), true, 0);
    AddVector(std::string(family.names.final_norm));
    if (!config_.tied_embeddings) AddMatrix(std::string(family.names.head), true, 0);
    for (int layer = 0; layer < config_.layers; ++layer) {
      for (const LinearPlace& place : LinearOf(family, config_, layer)) {
        const std::string name = LayerTensor(config_, layer, place.tensor);
        const int64_t heads = !architecture_.rotates_neighbours ? 0
                              : place.weight == Site::kQProjW   ? config_.heads
                              : place.weight == Site::kKProjW   ? config_.kv_heads
                                                                : 0;
        AddMatrix(name + ".weight", false, heads);
        if (place.bias != nullptr && config_.*place.bias) AddVector(name + ".bias", heads);
      }
      for (const VectorPlace& vector : family.vectors) {
        if (vector.In(config_, layer)) AddVector(LayerTensor(config_, layer, vector.tensor));
      }
    }
  }

  std::string FileNameOf(const std::string& name) const {
    const std::string theirs = gguf::FileName(architecture_, name);
    if (theirs.empty())
      Fail("{}: to gguf: tensor '{}': is none of llama.cpp's {}; a GGUF file cannot hold it", where_, name,
           architecture_.name);
    return theirs;
  }

  Source SourceOf(const std::string& name) const {
    const Checkpoint& files = model_.files();
    const std::string where = Formatted("{}: tensor '{}'", where_, name);
    if (const QuantizedMatrix* codes = files.FindQuantized(name))
      return {name, codes->out, codes->in,
              [codes, where](int64_t row, float* y) { DequantizeRow(*codes, row, y, where); }, codes};
    const WeightMatrix stored = StoredMatrix(files, name, where);
    return {name, stored.out, stored.in, [stored](int64_t row, float* y) { RowAsFloat(stored, row, y); }};
  }

  const TypeInfo& TypeFor(const Source& source, bool is_embedding) {
    const TypeInfo* type = &type_;
    if (is_embedding && BitsOf(type_) < BitsOf(InfoOf(TensorType::kQ8_0))) type = &InfoOf(TensorType::kQ8_0);
    if (source.in % type->values == 0) return *type;
    while (source.in % type->values != 0) type = &InsteadOf(*type);
    summary_.short_rows.emplace(source.name, type->name);
    return *type;
  }

  void AddMatrix(const std::string& name, bool is_embedding, int64_t rotated_heads) {
    const Source source = SourceOf(name);
    const TypeInfo& type = TypeFor(source, is_embedding);
    NewTensor tensor{FileNameOf(name), &type, {source.out, source.in}, {}};
    const int64_t bytes = tensor.Bytes();
    summary_.matrix_bytes += bytes;
    summary_.matrix_values += source.out * source.in;
    tensor.fill = [=, this, &type](std::span<std::byte> data) { Fill(source, type, rotated_heads, data); };
    Add(std::move(tensor));
  }

  void AddVector(const std::string& name, int64_t rotated_heads = 0) {
    const Source source = SourceOf(name);
    NewTensor tensor{FileNameOf(name), &InfoOf(TensorType::kF32), {source.out}, {}};
    const float added = architecture_.norms_add_one && name.ends_with("norm.weight") ? 1.0f : 0.0f;
    tensor.fill = [=](std::span<std::byte> data) {
      for (int64_t i = 0; i < source.out; ++i) {
        float value = 0;
        source.read(i, &value);
        value += added;
        std::memcpy(data.data() + FileRow(i, source.out, rotated_heads) * static_cast<int64_t>(sizeof value), &value,
                    sizeof value);
      }
    };
    Add(std::move(tensor));
  }

  // llama3's scaling: what divides each frequency.
  void AddRotaryDivisors() {
    RotaryConfig plain = config_.rotary;
    plain.type = RotaryConfig::Type::kDefault;
    const std::vector<float> scaled = RotaryFrequencies(config_.rotary, config_.head_dim),
                             unscaled = RotaryFrequencies(plain, config_.head_dim);
    std::vector<float> divisors(scaled.size());
    for (size_t i = 0; i < divisors.size(); ++i) divisors[i] = unscaled[i] / scaled[i];
    Add({"rope_freqs.weight", &InfoOf(TensorType::kF32), {std::ssize(divisors)}, [divisors](std::span<std::byte> data) {
           std::memcpy(data.data(), divisors.data(), data.size());
         }});
  }

  void Add(NewTensor tensor) {
    summary_.bytes += tensor.Bytes();
    ++summary_.types[std::string(tensor.type->name)];
    tensors_.push_back(std::move(tensor));
  }

  static int64_t FileRow(int64_t row, int64_t rows, int64_t rotated_heads) {
    return rotated_heads == 0 ? row : gguf::RowOfNeighbours(row, rows / rotated_heads);
  }

  // Rows' sums are added in order, so that the threads do not show.
  void Fill(const Source& source, const TypeInfo& type, int64_t rotated_heads, std::span<std::byte> data);

  std::filesystem::path path_;
  std::string version_, where_;
  Model model_;  // whole, of the shapes that config.json says, and finite, or refused
  const ModelConfig& config_;
  const gguf::Architecture& architecture_;
  const TypeInfo& type_;
  gguf::MetadataWriter metadata_;
  std::vector<NewTensor> tensors_;
  GgufSummary summary_;
  double error_ = 0, size_ = 0;
};

void GgufJob::Fill(const Source& source, const TypeInfo& type, int64_t rotated_heads, std::span<std::byte> data) {
  struct Sums {
    double error = 0, size = 0;
    gguf::RoundedScales scales;  // of codes
    bool fits = true;
  };
  const bool holds_codes = source.codes != nullptr && gguf::HoldsCodes(type.type, *source.codes);
  std::vector<Sums> sums(static_cast<size_t>(source.out));
  const int64_t blocks = source.in / type.values;
  ParallelFor(sums.size(), [&](size_t r, int) {
    thread_local std::vector<float> values, rounded;
    values.resize(static_cast<size_t>(source.in));
    rounded.resize(values.size());
    source.read(static_cast<int64_t>(r), values.data());
    std::byte* const row =
        data.data() + FileRow(static_cast<int64_t>(r), source.out, rotated_heads) * blocks * type.bytes;
    if (holds_codes) sums[r].scales = gguf::PutCodes(type.type, *source.codes, static_cast<int64_t>(r), row);
    sums[r].fits = holds_codes ? sums[r].scales.fit : gguf::QuantizeBlocks(type.type, values.data(), blocks, row);
    gguf::DequantizeBlocks(type.type, row, blocks, rounded.data());
    const auto [error, size] = SquaresOf(values, rounded);
    sums[r].error = error;
    sums[r].size = size;
  });
  double error = 0;
  for (const Sums& row : sums) {
    if (!row.fits)
      Fail("{}: to gguf: tensor '{}': got values beyond {}'s, expected smaller ones; try --type BF16", where_,
           source.name, type.name);
    error += row.error;
    size_ += row.size;
    summary_.scales += row.scales.groups;
    summary_.rounded_scales += row.scales.rounded;
  }
  if (source.codes != nullptr && !holds_codes && error > 0)
    Fail(
        "{}: to gguf: tensor '{}': got codes whose values {} cannot hold, and would round a second time; try --type "
        "F32, or the checkpoint that they were made from",
        where_, source.name, type.name);
  error_ += error;
}

}  // namespace

std::vector<std::string> GgufTypes() { return gguf::TypesWritten(); }

GgufSummary ConvertToGguf(const std::filesystem::path& model, const std::string& type, std::string_view version,
                          const std::filesystem::path& out, const Progress& progress) {
  return GgufJob(model, type, version).Write(out, progress);
}

}  // namespace tare
