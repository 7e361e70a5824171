// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/gguf/export.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/rotary.h"
#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/model.h"
#include "experiments/passes/generate.h"
#include "experiments/quantize/provenance.h"
#include "experiments/text/tokenizer/added_tokens.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/interchange/gguf/blocks.h"
#include "quant/interchange/gguf/vocabulary.h"

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

// Rows of a stored matrix, or values of a vector as rows of one.
struct Source {
  std::string name;
  int64_t first = 0, step = 1, count = 0, in = 0;
  ReadRow read;
  const QuantizedMatrix* codes = nullptr;  // where they are Tare's own

  int64_t Stored(int64_t row) const { return first + row * step; }
  void Row(int64_t row, float* y) const { read(Stored(row), y); }
};

class GgufJob {
 public:
  GgufJob(const std::filesystem::path& path, const std::string& type, std::string_view version)
      : path_(path),
        version_(version),
        where_(path.string()),
        model_(path, Math::kF32, {.converted = 0}),
        config_(model_.config()),
        architecture_(GgufArchitectureOf(config_, where_)),
        type_(*gguf::FindType(type)),
        metadata_(where_) {}

  GgufSummary Write(const std::filesystem::path& out, const Progress& progress) {
    AddKeys();
    AddRotaryDivisors();
    for (const GgufTensor& tensor : GgufTensors(config_, architecture_, where_)) AddTensor(tensor);
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
    metadata_.Text("tare.version", version_);
    for (const auto& [name, text] : kProvenance) {
      if (!(p.*text).empty()) metadata_.Text(Formatted("tare.{}", name), p.*text);
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
      std::map<std::string, bool> special;
      for (const nlohmann::json& token : pipeline::ReadFolderTokens(path_).added)
        special.emplace(token.at("content"), token.value("special", false));
      for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
        if (const auto token = special.find(tokenizer.Piece(id)); token != special.end())
          use.added.push_back({id, token->first, token->second});
      }
    }
    summary_.has_tokenizer = gguf::AddVocabulary(file, use, metadata_);
    if (!summary_.has_tokenizer) metadata_.Text("tokenizer.ggml.model", "no_vocab");
  }

  Source SourceOf(const GgufPiece& piece) const {
    const Checkpoint& files = model_.files();
    const std::string where = Formatted("{}: tensor '{}'", where_, piece.tensor);
    const QuantizedMatrix* const codes = files.FindQuantized(piece.tensor);
    if (codes != nullptr) RefuseBranch(*codes, where, "GGUF");
    const WeightMatrix stored = codes != nullptr ? WeightMatrix(codes) : StoredMatrix(files, piece.tensor, where);
    return {.name = piece.tensor,
            .first = piece.first,
            .step = piece.step,
            .count = piece.count,
            .in = stored.in,
            .read = [stored, where](int64_t row, float* y) { RowAsFloat(stored, row, y, where); },
            .codes = codes};
  }

  const TypeInfo& TypeFor(const Source& source, bool is_embedding) {
    const TypeInfo* type = &type_;
    if (is_embedding && BitsOf(type_) < BitsOf(InfoOf(TensorType::kQ8_0))) type = &InfoOf(TensorType::kQ8_0);
    if (source.in % type->values == 0) return *type;
    while (source.in % type->values != 0) type = &InsteadOf(*type);
    summary_.short_rows.emplace(source.name, type->name);
    return *type;
  }

  void AddTensor(const GgufTensor& tensor) {
    std::vector<Source> sources;
    int64_t rows = 0;
    for (const GgufPiece& piece : tensor.pieces) {
      sources.push_back(SourceOf(piece));
      rows += piece.count;
    }
    const bool is_vector = tensor.kind == GgufKind::kVector;
    const int64_t in = sources.front().in;
    const TypeInfo& type =
        is_vector ? InfoOf(TensorType::kF32) : TypeFor(sources.front(), tensor.kind == GgufKind::kEmbedding);
    NewTensor added{tensor.name, &type, {rows}, {}};
    if (tensor.experts > 0) added.shape = {tensor.experts, rows / tensor.experts};
    if (!is_vector || in > 1) added.shape.push_back(in);
    if (!is_vector) {
      summary_.matrix_bytes += added.Bytes();
      summary_.matrix_values += rows * in;
    }
    added.fill = [this, sources, &type, is_vector, heads = tensor.rotated_heads](std::span<std::byte> data) {
      for (const Source& source : sources) {
        const auto size = static_cast<size_t>(source.count * source.in / type.values * type.bytes);
        is_vector ? FillVector(source, heads, data.first(size)) : Fill(source, type, heads, data.first(size));
        data = data.subspan(size);
      }
    };
    Add(std::move(added));
  }

  // In F32.
  void FillVector(const Source& source, int64_t rotated_heads, std::span<std::byte> data) const {
    const float added = architecture_.Has(gguf::kNormsAddOne) && source.name.ends_with("norm.weight") ? 1.0f : 0.0f;
    std::vector<float> row(static_cast<size_t>(source.in));
    for (int64_t r = 0; r < source.count; ++r) {
      source.Row(r, row.data());
      for (float& value : row) value += added;
      const size_t bytes = row.size() * sizeof(float);
      std::memcpy(data.data() + static_cast<size_t>(FileRow(r, source.count, rotated_heads)) * bytes, row.data(),
                  bytes);
    }
  }

  // What divides each frequency.
  void AddRotaryDivisors() {
    using Type = RotaryConfig::Type;
    if (config_.rotary.type == Type::kLongRope) {
      const std::vector<double>&longs = config_.rotary.long_divisors, &shorts = config_.rotary.short_divisors;
      AddFloats("rope_factors_long.weight", {longs.begin(), longs.end()});
      AddFloats("rope_factors_short.weight", {shorts.begin(), shorts.end()});
    }
    if (config_.rotary.type != Type::kLlama3) return;
    RotaryConfig plain = config_.rotary;
    plain.type = Type::kDefault;
    const std::vector<float> scaled = RotaryFrequencies(config_.rotary, config_.head_dim),
                             unscaled = RotaryFrequencies(plain, config_.head_dim);
    std::vector<float> divisors(scaled.size());
    for (size_t i = 0; i < divisors.size(); ++i) divisors[i] = unscaled[i] / scaled[i];
    AddFloats("rope_freqs.weight", std::move(divisors));
  }

  void AddFloats(const char* name, std::vector<float> values) {
    const std::vector<int64_t> shape{std::ssize(values)};
    Add({name, &InfoOf(TensorType::kF32), shape, [values = std::move(values)](std::span<std::byte> data) {
           std::memcpy(data.data(), values.data(), data.size());
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
  void Fill(const Source& source, const TypeInfo& type, int64_t rotated_heads, std::span<std::byte> data) {
    struct Sums {
      double error = 0, size = 0;
      int64_t lost = 0;
      gguf::RoundedScales scales;  // of codes
      bool fits = true;
    };
    const bool holds_codes = source.codes != nullptr && gguf::HoldsCodes(type.type, *source.codes);
    std::vector<Sums> sums(static_cast<size_t>(source.count));
    const int64_t blocks = source.in / type.values;
    ParallelFor(sums.size(), [&](size_t r, int) {
      thread_local std::vector<float> values, rounded;
      values.resize(static_cast<size_t>(source.in));
      rounded.resize(values.size());
      const auto at = static_cast<int64_t>(r);
      source.Row(at, values.data());
      std::byte* const row = data.data() + FileRow(at, source.count, rotated_heads) * blocks * type.bytes;
      if (holds_codes) sums[r].scales = gguf::PutCodes(type.type, *source.codes, source.Stored(at), row);
      sums[r].fits = holds_codes ? sums[r].scales.fit : gguf::QuantizeBlocks(type.type, values.data(), blocks, row);
      gguf::DequantizeBlocks(type.type, row, blocks, rounded.data());
      const auto block = static_cast<size_t>(std::max<int64_t>(type.values, 32));
      for (size_t i = 0; i < values.size(); i += block) {
        const size_t count = std::min(block, values.size() - i);
        const auto [error, size] = SquaresOf(std::span(values).subspan(i, count), std::span(rounded).subspan(i, count));
        sums[r].error += error;
        sums[r].size += size;
        sums[r].lost += 4 * error > size ? 1 : 0;
      }
    });
    double error = 0;
    for (const Sums& row : sums) {
      if (!row.fits)
        Fail("{}: to gguf: tensor '{}': got values beyond {}'s, expected smaller ones; try --type BF16", where_,
             source.name, type.name);
      error += row.error;
      size_ += row.size;
      summary_.lost_blocks += row.lost;
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

}  // namespace

GgufSummary ConvertToGguf(const std::filesystem::path& model, const std::string& type, std::string_view version,
                          const std::filesystem::path& out, const Progress& progress) {
  return GgufJob(model, type, version).Write(out, progress);
}

}  // namespace tare
