// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "experiments/model/config/config.h"
#include "experiments/model/families/llama.h"
#include "experiments/model/model.h"
#include "experiments/quantize/provenance.h"
#include "quant/base/message.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Layout = RotaryConfig::Layout;

bool IsV1(const Family& family) { return family.name == "diffllama" || family.name == "diff_v1"; }

// From a head with one map to one with two, without a norm of its output: both are the one, and lambda is 1/2.
bool Doubles(const ModelConfig& from, const ModelConfig& to) { return to.family == "diff_v2" && Maps(from) == 1; }

bool HasHeadNormWeight(const ModelConfig& c) {
  return c.head_norm_weight && std::ranges::contains(FamilyOf(c).vectors, kHeadNorm, &VectorPlace::tensor);
}

// config.json of the target family, without the source family's own keys.
std::string TargetConfig(const std::filesystem::path& model, const ModelConfig& from, const std::string& to) {
  auto config = ParseOrderedJson(*ModelConfigText(model), (model / "config.json").string());
  for (const char* key : {"architectures", "auto_map", "rotary_layout", "head_pairing", "head_norm_weight",
                          "attn_rms_norm_eps", "lambda_init"})
    config.erase(key);
  config["model_type"] = to;
  config["head_dim"] = from.head_dim;
  config["num_key_value_heads"] = from.kv_heads;
  config["attention_bias"] = from.attention_bias;  // as the source family reads its own keys, or does not
  config["mlp_bias"] = from.mlp_bias;
  if (to == "llama") config["architectures"] = {"LlamaForCausalLM"};
  if (to == "diffllama") config["architectures"] = {"DiffLlamaForCausalLM"};
  if (to == "diff_v1") {
    config["attn_rms_norm_eps"] = HeadNormEps(from);
    if (from.lambda_init) config["lambda_init"] = *from.lambda_init;
  }
  if (to == "diff_v2" && Maps(from) == 1) {
    if (from.windows.empty()) config.erase("sliding_window");  // not in use
    const std::pair<const char*, Json> usual[]{{"vocab_size", from.vocabulary},
                                               {"hidden_size", from.hidden},
                                               {"intermediate_size", from.ffn},
                                               {"num_hidden_layers", from.layers},
                                               {"rms_norm_eps", from.norm_eps},
                                               {"max_position_embeddings", from.max_positions},
                                               {"tie_word_embeddings", from.tied_embeddings}};
    for (const auto& [key, value] : usual)  // defaults of the source family
      if (config.value(key, Json()).is_null()) config[key] = value;
    config["num_attention_heads"] = 2 * from.heads;
  }
  return config.dump(2) + "\n";
}

// The parts of a computation that a configuration alone says, without those that layouts move.
std::string DifferentPart(const ModelConfig& a, const ModelConfig& b) {
  const auto unrotated = [](const ModelConfig& c) { return std::ranges::contains(c.unrotated, true); };
  const auto scales = [](const ModelConfig& c) {
    return std::tuple(c.embedding_scale, c.residual_scale, c.attention_scale, c.logit_divisor, c.logit_cap);
  };
  const auto positions = [](const ModelConfig& c, int64_t tokens) {
    return std::pair(RotaryFrequencies(c.rotary, c.head_dim, tokens), c.rotary.attention_factor);
  };
  const std::pair<const char*, bool> parts[]{
      {"a window of keys", a.windows != b.windows},
      {"layers without rotary positions", unrotated(a) != unrotated(b)},
      {"multipliers of embeddings, layers or logits", scales(a) != scales(b)},
      {"another activation", a.activation != b.activation},
      {"softpick in place of the softmax", a.row_weights != b.row_weights},
      {"another norm_eps", a.norm_eps != b.norm_eps},
      {"other rotary positions", positions(a, 1) != positions(b, 1) ||
                                     positions(a, a.positions_reached) != positions(b, a.positions_reached) ||
                                     a.rotary.IsLong(a.positions_reached) != b.rotary.IsLong(a.positions_reached)}};
  const auto found = std::ranges::find(parts, true, &std::pair<const char*, bool>::second);
  return found == std::end(parts) ? "" : found->first;
}

// Checks that the target computes the same from the same numbers.
void CheckSays(const Model& model, const ModelConfig& to, const std::string& where) {
  const ModelConfig& from = model.config();
  const Family &source = FamilyOf(from), &target = FamilyOf(to);
  const auto refuse = [&](const std::string& got, const std::string& expected) {
    Fail("{}: to {}: got {}, expected {}; that layout cannot express it", where, target.name, got, expected);
  };
  const auto without = [&](std::string_view tensor) {
    refuse(Formatted("{} with {}", source.name, tensor), "a model without it");
  };
  const bool doubles = Doubles(from, to);
  if (&source != &target && !(IsV1(source) && IsV1(target))) {
    for (const LinearPlace& place : source.linear)
      if (!std::ranges::contains(target.linear, place.weight, &LinearPlace::weight)) without(place.tensor);
    if (IsV1(target) && Maps(from) == 1)
      Fail(
          "{}: to {}: got {} model, expected diffllama or diff_v1: no weights undo their norm of each head's output; "
          "try --to diff_v2, which has none",
          where, target.name, WithArticle(source.name));
    if (!doubles || source.forward != target.forward)
      refuse(WithArticle(source.name) + " model", IsV1(target) ? "diffllama or diff_v1"
                                                  : doubles    ? "one like llama"
                                                               : std::string(target.name));
    for (const VectorPlace& place : source.vectors)
      if (!std::ranges::contains(target.vectors, place.tensor, &VectorPlace::tensor)) without(place.tensor);
    if (GateWidth(from) > 0) refuse("a gate on attention's output", "none");
  }
  if (const std::string part = DifferentPart(from, to); !part.empty()) refuse(part, "none");
  for (const LinearPlace& place : source.linear) {
    const LinearPlace& there = *std::ranges::find(target.linear, place.weight, &LinearPlace::weight);
    const bool ours = place.bias != nullptr && from.*place.bias, theirs = there.bias != nullptr && to.*there.bias;
    if (ours && !theirs)
      refuse(Formatted("{} with a bias", place.tensor), Formatted("it without one, as in {}", target.name));
  }
  if (from.rotary.layout != to.rotary.layout && (from.qk_norm || GateWidth(from) > 0))
    refuse("another rotary layout with norms of queries and keys, or a gate", "neither");
  if (!IsV1(source)) return;
  if (HeadNormEps(from) != HeadNormEps(to))
    refuse(Formatted("a norm of heads with eps {}", HeadNormEps(from)),
           Formatted("rms_norm_eps {}, its only one", to.norm_eps));
  for (int layer = 0; layer < from.layers; ++layer) {
    const float got = *model.layers()[static_cast<size_t>(layer)].lambda_init;
    const float expected = to.lambda_init.value_or(LambdaInit(layer));
    if (got != expected)
      refuse(Formatted("lambda_init {} in layer {}", got, layer), Formatted("{}, by the layer's depth", expected));
  }
}

// For each head of the target, the head of the source with the same role in the same output head.
std::vector<int> HeadSources(const ModelConfig& from, const ModelConfig& to, Site site, const std::string& where) {
  const std::vector<OutputHead> source = HeadTable(from), target = HeadTable(to);
  std::vector<int> of(static_cast<size_t>(HeadsOf(site, to)), -1);
  const auto meet = [&](int theirs, int ours) {
    if (theirs == kNoMap && ours == kNoMap) return;
    int& known = of.at(static_cast<size_t>(theirs));
    if (known >= 0 && known != ours)
      Fail("{}: to {}: got heads {} and {} of {} where it has one, expected the same", where, to.family, known, ours,
           Name(site));
    known = ours;
  };
  TARE_CHECK(source.size() == target.size());
  const int second = Doubles(from, to) ? 0 : 1;  // the map that becomes the second one
  for (size_t h = 0; h < source.size(); ++h) {
    for (int part = 0; part < 2; ++part) {
      if (site == Site::kQ) meet(target[h].Q(part), source[h].Q(part * second));
      if (site == Site::kK) meet(target[h].K(part), source[h].K(part * second));
      if (site == Site::kV) meet(target[h].v[part], source[h].v[part]);
    }
  }
  for (size_t i = 0; i < of.size(); ++i) {
    if (of[i] < 0) of[i] = static_cast<int>(i);  // that no head uses
  }
  return of;
}

// The channel in one layout that is channel i in the other.
int ChannelIn(Layout from, Layout to, int i, int d) {
  const int half = d / 2, pair = to == Layout::kHalfSplit ? i % half : i / 2,
            part = to == Layout::kHalfSplit ? i / half : i % 2;
  return from == Layout::kHalfSplit ? part * half + pair : 2 * pair + part;
}

class Writer {
 public:
  Writer(const Model& model, const ModelConfig& to, const std::string& where, const ArrayFile* dex)
      : files_(model.files()), from_(model.config()), to_(to), where_(where), dex_(dex) {
    const int d = from_.head_dim;
    const auto rows = [&](Site site, bool turns) {
      std::vector<int64_t> order;
      for (const int head : HeadSources(from_, to_, site, where_)) {
        for (int i = 0; i < d; ++i)
          order.push_back(int64_t{head} * d + (turns ? ChannelIn(from_.rotary.layout, to_.rotary.layout, i, d) : i));
      }
      return order;
    };
    orders_[Site::kQProjW] = rows(Site::kQ, true);
    orders_[Site::kKProjW] = rows(Site::kK, true);
    orders_[Site::kVProjW] = rows(Site::kV, false);
  }

  void AddAll() {
    const Family &source = FamilyOf(from_), &target = FamilyOf(to_);
    Add(source.names.embedding, target.names.embedding);
    Add(source.names.final_norm, target.names.final_norm);
    if (!from_.tied_embeddings) Add(source.names.head, target.names.head);
    for (int layer = 0; layer < from_.layers; ++layer) {
      for (const LinearPlace& place : target.linear) AddLinear(layer, place);
      for (const VectorPlace& place : source.vectors) {
        if (place.tensor != kHeadNorm)
          Add(LayerTensor(from_, layer, place.tensor), LayerTensor(to_, layer, place.tensor));
      }
      AddHeadNorm(layer);
    }
  }

  ConvertSummary Write(const std::filesystem::path& path, const Progress& progress) {
    for (const MadeTensor& tensor : made_) summary_.bytes += *ByteCount(tensor.dtype, tensor.shape);
    summary_.tensors = static_cast<int>(made_.size());
    WriteMadeTensors(path, std::move(made_), {{"format", "pt"}}, [&](int64_t done, int64_t total) {
      Report(progress, done, total, "bytes");
      ThrowIfStopped();
    });
    return summary_;
  }

 private:
  using Bytes = std::vector<std::byte>;
  using Change = std::function<void(const TensorView& stored, Bytes& made)>;

  // The type and shape of a tensor as it is written; empty if the checkpoint has no such tensor.
  struct Kind {
    DType dtype;
    std::vector<int64_t> shape;
  };
  std::optional<Kind> Find(const std::string& name) const {
    if (!files_.Has(name)) return std::nullopt;
    if (const TensorView* stored = files_.Find(name)) return Kind{stored->dtype, stored->shape};
    const WeightMatrix codes = StoredMatrix(files_, name, where_);
    return Kind{DType::kF32, {codes.out, codes.in}};
  }
  // A tensor of the source, or change() of it.
  void Add(std::string_view name, std::string_view as) { Add(name, as, *Find(std::string(name)), {}); }
  void Add(std::string_view name, std::string_view as, Kind kind, Change change) {
    made_.push_back({std::string(as), kind.dtype, std::move(kind.shape),
                     [this, name = std::string(name), change = std::move(change)](Bytes& memory) {
                       const TensorView stored = WrittenTensor(files_, name, values_);
                       if (!change) return stored.bytes;
                       change(stored, memory);
                       return std::span<const std::byte>(memory);
                     }});
  }
  // Zeros, or in F32 ones.
  void AddFilled(const std::string& as, Kind kind, float value) {
    const auto bytes = [kind, value](Bytes& memory) {
      memory.assign(static_cast<size_t>(*ByteCount(kind.dtype, kind.shape)), std::byte{0});
      for (size_t i = 0; value != 0 && i < memory.size(); i += sizeof value)
        std::memcpy(memory.data() + i, &value, sizeof value);
      return std::span<const std::byte>(memory);
    };
    made_.push_back({as, kind.dtype, kind.shape, bytes});
  }

  void AddLinear(int layer, const LinearPlace& there) {
    const auto& ours = FamilyOf(from_).linear;
    const auto place = std::ranges::find(ours, there.weight, &LinearPlace::weight);
    const MatrixShape shape = ShapeOf(there.weight, to_);
    for (const std::string part : {".weight", ".bias"}) {
      const std::string as = LayerTensor(to_, layer, there.tensor) + part;
      const std::string name = place == ours.end() ? "" : LayerTensor(from_, layer, place->tensor) + part;
      if (const auto kind = Find(name)) {
        AddLinear(there.weight, name, *kind, as, layer);
      } else if (part == ".weight") {  // lambda_proj
        AddFilled(as, {TypeOf(layer), {shape.out, shape.in}}, 0);
      } else if (there.bias != nullptr && to_.*there.bias) {
        AddFilled(as, {TypeOf(layer), {shape.out}}, 0);
      }
    }
  }
  DType TypeOf(int layer) const {  // of q_proj
    const auto& places = FamilyOf(from_).linear;
    const auto place = std::ranges::find(places, Site::kQProjW, &LinearPlace::weight);
    return Find(LayerTensor(from_, layer, place->tensor) + ".weight")->dtype;
  }

  void AddLinear(Site weight, const std::string& name, Kind kind, const std::string& as, int layer) {
    const auto order = orders_.find(weight);
    if (order != orders_.end() && !std::ranges::is_sorted(order->second)) {
      ++summary_.moved;
      const int64_t stored = std::exchange(kind.shape.front(), std::ssize(order->second));
      return Add(name, as, std::move(kind), [&rows = order->second, stored](const TensorView& tensor, Bytes& made) {
        const size_t width = tensor.bytes.size() / static_cast<size_t>(stored);
        made.resize(rows.size() * width);
        for (size_t row = 0; row < rows.size(); ++row)
          std::memcpy(made.data() + row * width, tensor.bytes.data() + static_cast<size_t>(rows[row]) * width, width);
      });
    }
    const bool doubles = Doubles(from_, to_),
               folds = dex_ != nullptr || (HasHeadNormWeight(from_) && !HasHeadNormWeight(to_));
    if (weight != Site::kOProjW || kind.shape.size() != 2 || !(folds || doubles))
      return Add(name, as, std::move(kind), {});
    summary_.folded += folds, summary_.doubled += doubles;
    const Folding dex = dex_ == nullptr ? Folding() : DexOf(*dex_, from_, layer);
    const std::string norm = folds && !dex ? LayerTensor(from_, layer, kHeadNorm) : "";
    if (folds) kind.dtype = DType::kF32;
    Add(name, as, kind, [this, norm, dex, doubles, dtype = kind.dtype](const TensorView& tensor, Bytes& made) {
      const auto factors = norm.empty() ? std::vector{doubles ? 2.0f : 1.0f} : FloatsOf(*files_.Find(norm));
      std::vector<float> values = FloatsOf(tensor);
      if (dex) dex(values);
      const auto in = static_cast<size_t>(tensor.shape.back());  // [E, heads 2d]: factors of a head's channels repeat
      for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i % in % factors.size()];
      const auto put = [&made](std::span<const std::byte> bytes) { made.assign(bytes.begin(), bytes.end()); };
      if (!IsHalf(dtype)) {
        if (std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
          return put(std::as_bytes(std::span(values)));
      } else if (const auto halves = Halves(values, dtype)) {
        return put(std::as_bytes(halves->span()));
      }
      const std::string by = dex ? "DEX" : norm.empty() ? "2" : norm;
      Fail("{}: to {}: tensor '{}': got values whose product with {} {} cannot hold, expected smaller ones", where_,
           to_.family, tensor.name, by, Name(dtype));
    });
  }

  std::vector<float> FloatsOf(const TensorView& tensor) const {
    const WeightMatrix matrix = StoredMatrix(tensor, where_);
    std::vector<float> values(static_cast<size_t>(matrix.out * matrix.in));
    RowsAsFloat(matrix, 0, matrix.out, values.data(), where_);
    return values;
  }

  void AddHeadNorm(int layer) {
    if (!HasHeadNormWeight(to_)) return;
    const std::string as = LayerTensor(to_, layer, kHeadNorm);
    if (HasHeadNormWeight(from_)) return Add(LayerTensor(from_, layer, kHeadNorm), as);
    AddFilled(as, {DType::kF32, {2 * int64_t{to_.head_dim}}}, 1);
  }

  const Checkpoint& files_;
  const ModelConfig &from_, &to_;
  const std::string where_;
  const ArrayFile* const dex_;                   // or null
  std::map<Site, std::vector<int64_t>> orders_;  // stored row of each row
  std::vector<MadeTensor> made_;
  AlignedBuffer<char> values_;  // of the source of the tensor that is being made
  ConvertSummary summary_;
};

}  // namespace

ConvertSummary ConvertLayout(const std::filesystem::path& path, const std::string& to,
                             const std::filesystem::path& folder, const Progress& progress,
                             const std::filesystem::path& dex) {
  const std::span<const LinearPlace> linear = FamilyNamed(to, "--to").linear;
  // Whole, of the shapes that config.json says, and finite, or refused.
  const Model model(path, Math::kF32, {.converted = 0});
  RefuseCodes(model.files(), path);
  const bool fused = !std::ranges::all_of(linear, [](const LinearPlace& place) { return place.fused.empty(); });
  if (fused && model.config().kinds.empty())
    Fail("{}: to {}: got {} model, expected a family that stores each projection alone", path.string(), to,
         WithArticle(to));
  if (!model.config().kinds.empty() || model.config().experts > 0)
    Fail("{}: to {}: got {} model, expected a family whose layers are alike; that layout cannot express it",
         path.string(), to, WithArticle(model.config().family));
  const std::string where = path.string(), text = TargetConfig(path, model.config(), to);
  const ModelConfig target = ParseConfig(text, where + ": to " + to);
  CheckSays(model, target, where);
  const std::unique_ptr<ArrayFile> of_dex = dex.empty() ? nullptr : ArrayFile::Open(dex);
  Writer writer(model, target, where, of_dex.get());
  writer.AddAll();
  std::filesystem::create_directory(folder);
  const ConvertSummary summary = writer.Write(folder / "model.safetensors", progress);
  CopyTokenizer(path, folder);
  WriteFileAtomically(folder / "config.json", text);
  return summary;
}

}  // namespace tare
