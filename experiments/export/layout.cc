// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/hugging_face.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "experiments/model/config/config.h"
#include "experiments/model/families/llama.h"
#include "experiments/model/model.h"
#include "experiments/quantize/provenance.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Layout = RotaryConfig::Layout;

bool IsV1(const Family& family) { return family.name == "diffllama" || family.name == "diff_v1"; }

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
  return config.dump(2) + "\n";
}

// Checks that the target computes the same from the same numbers.
void CheckSays(const Model& model, const ModelConfig& to, const std::string& where) {
  const ModelConfig& from = model.config();
  const Family &source = FamilyOf(from), &target = FamilyOf(to);
  const auto refuse = [&](const std::string& got, const std::string& expected) {
    Fail("{}: to {}: got {}, expected {}; that layout cannot express it", where, target.name, got, expected);
  };
  if (&source != &target && !(IsV1(source) && IsV1(target))) {
    for (const LinearPlace& place : source.linear) {
      if (!std::ranges::contains(target.linear, place.weight, &LinearPlace::weight))
        refuse(Formatted("{} with {}", source.name, place.tensor), "a model without it");
    }
    refuse(WithArticle(source.name) + " model", IsV1(target) ? "diffllama or diff_v1" : std::string(target.name));
  }
  for (const LinearPlace& place : source.linear) {
    const LinearPlace& there = *std::ranges::find(target.linear, place.weight, &LinearPlace::weight);
    const bool ours = place.bias != nullptr && from.*place.bias, theirs = there.bias != nullptr && to.*there.bias;
    if (ours != theirs)
      refuse(Formatted("{} {} a bias", place.tensor, ours ? "with" : "without"),
             Formatted("it {} one, as in {}", theirs ? "with" : "without", target.name));
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
  for (size_t h = 0; h < source.size(); ++h) {
    for (int part = 0; part < 2; ++part) {
      if (site == Site::kQ) meet(target[h].Q(part), source[h].Q(part));
      if (site == Site::kK) meet(target[h].K(part), source[h].K(part));
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
  Writer(const Model& model, const ModelConfig& to, const std::string& where)
      : files_(model.files()), from_(model.config()), to_(to), where_(where) {
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
      ThrowIfStopped();
      for (const LinearPlace& place : source.linear) {
        const LinearPlace& there = *std::ranges::find(target.linear, place.weight, &LinearPlace::weight);
        for (const char* part : {".weight", ".bias"})
          AddLinear(layer, place.weight, std::string(place.tensor) + part, std::string(there.tensor) + part);
      }
      for (const VectorPlace& place : source.vectors) {
        if (place.tensor != kHeadNorm)
          Add(LayerTensor(from_, layer, place.tensor), LayerTensor(to_, layer, place.tensor));
      }
      AddHeadNorm(layer);
    }
  }

  ConvertSummary Write(const std::filesystem::path& path, const Progress& progress) {
    for (const TensorView& tensor : views_) summary_.bytes += static_cast<int64_t>(tensor.bytes.size());
    summary_.tensors = static_cast<int>(views_.size());
    WriteSafetensors(path, std::move(views_), {{"format", "pt"}},
                     [&](int64_t done, int64_t total) { Report(progress, done, total, "bytes"); });
    return summary_;
  }

 private:
  void Add(std::string_view name, std::string_view as) {
    TensorView tensor = *Find(std::string(name));
    tensor.name = as;
    views_.push_back(std::move(tensor));
  }
  // As it is written; null if the checkpoint has no such tensor.
  const TensorView* Find(const std::string& name) {
    return files_.Has(name) ? &written_.emplace_back(files_, name).view() : nullptr;
  }
  void AddOwn(const TensorView& like, const std::string& as, DType dtype, std::vector<std::byte> bytes) {
    const std::vector<std::byte>& kept = memory_.emplace_back(std::move(bytes));
    views_.push_back({as, dtype, like.shape, kept});
  }

  void AddLinear(int layer, Site weight, const std::string& tensor, const std::string& as) {
    const std::string name = LayerTensor(from_, layer, tensor), there = LayerTensor(to_, layer, as);
    const TensorView* stored = Find(name);
    if (stored == nullptr) return;  // a bias that it does not have
    const auto order = orders_.find(weight);
    if (order != orders_.end() && !std::ranges::is_sorted(order->second)) return AddRows(*stored, order->second, there);
    const bool folds =
        weight == Site::kOProjW && stored->shape.size() == 2 && HasHeadNormWeight(from_) && !HasHeadNormWeight(to_);
    if (folds) return AddFolded(*stored, layer, there);
    Add(name, there);
  }

  void AddRows(const TensorView& stored, const std::vector<int64_t>& order, const std::string& as) {
    std::vector<std::byte> bytes(stored.bytes.size());
    const size_t width = bytes.size() / order.size();
    TARE_CHECK(static_cast<size_t>(stored.shape.front()) == order.size());
    for (size_t row = 0; row < order.size(); ++row)
      std::memcpy(bytes.data() + row * width, stored.bytes.data() + static_cast<size_t>(order[row]) * width, width);
    AddOwn(stored, as, stored.dtype, std::move(bytes));
    ++summary_.moved;
  }

  // o_proj [E, heads 2d], its column of a head's channel times that of the norm's weight [2d].
  void AddFolded(const TensorView& stored, int layer, const std::string& as) {
    const WeightMatrix matrix = StoredMatrix(stored, where_);
    const TensorView& norm = *Find(LayerTensor(from_, layer, kHeadNorm));
    const WeightMatrix column = StoredMatrix(norm, where_);
    std::vector<float> weight(static_cast<size_t>(column.out));
    RowsAsFloat(column, 0, column.out, weight.data(), where_);
    std::vector<std::byte> bytes(static_cast<size_t>(matrix.out * matrix.in) * sizeof(float));
    ParallelFor(static_cast<size_t>(matrix.out), [&](size_t row, int) {
      std::vector<float> values(static_cast<size_t>(matrix.in));
      RowAsFloat(matrix, static_cast<int64_t>(row), values.data());
      for (size_t i = 0; i < values.size(); ++i) values[i] *= weight[i % weight.size()];
      std::memcpy(bytes.data() + row * values.size() * sizeof(float), values.data(), values.size() * sizeof(float));
    });
    AddOwn(stored, as, DType::kF32, std::move(bytes));
    ++summary_.folded;
  }

  void AddHeadNorm(int layer) {
    if (!HasHeadNormWeight(to_)) return;
    const std::string as = LayerTensor(to_, layer, kHeadNorm);
    if (HasHeadNormWeight(from_)) return Add(LayerTensor(from_, layer, kHeadNorm), as);
    const std::vector<float> ones(2 * static_cast<size_t>(to_.head_dim), 1.0f);
    const auto bytes = std::as_bytes(std::span(ones));
    AddOwn({"", DType::kF32, {std::ssize(ones)}, {}}, as, DType::kF32, {bytes.begin(), bytes.end()});
  }

  const Checkpoint& files_;
  const ModelConfig &from_, &to_;
  const std::string where_;
  std::map<Site, std::vector<int64_t>> orders_;  // stored row of each row
  std::vector<TensorView> views_;
  std::deque<WrittenTensor> written_;
  std::deque<std::vector<std::byte>> memory_;
  ConvertSummary summary_;
};

}  // namespace

ConvertSummary ConvertLayout(const std::filesystem::path& path, const std::string& to,
                             const std::filesystem::path& folder, const Progress& progress) {
  FamilyNamed(to, "--to");
  const Model model(path);  // whole, of the shapes that config.json says, and finite, or refused
  RefuseCodes(model.files(), path);
  const bool fused = !std::ranges::all_of(FamilyOf(model.config()).linear,
                                          [](const LinearPlace& place) { return place.fused.empty(); });
  if (fused && model.config().kinds.empty())
    Fail("{}: to {}: got {} model, expected a family that stores each projection alone", path.string(), to,
         WithArticle(model.config().family));
  if (!model.config().kinds.empty() || model.config().experts > 0)
    Fail("{}: to {}: got {} model, expected a family whose layers are alike; that layout cannot express it",
         path.string(), to, WithArticle(model.config().family));
  const std::string where = path.string(), text = TargetConfig(path, model.config(), to);
  const ModelConfig target = ParseConfig(text, where + ": to " + to);
  CheckSays(model, target, where);
  Writer writer(model, target, where);
  writer.AddAll();
  std::filesystem::create_directory(folder);
  const ConvertSummary summary = writer.Write(folder / "model.safetensors", progress);
  CopyTokenizer(path, folder);
  WriteFileAtomically(folder / "config.json", text);
  return summary;
}

}  // namespace tare
