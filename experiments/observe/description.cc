// SPDX-License-Identifier: Apache-2.0
// Tensors by stored type, a model's description as JSON, and the merged rows of experts.
#include "experiments/observe/description.h"

#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/model/linear/weights.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/message.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

// "int4+full/group32", as integer kernels read another tool's codes; null where they are dequantized.
Json ExecutedAs(const ForeignMatrix& m) {
  if (!WeightMatrix(&m).HasIntegers()) return nullptr;
  const IntegerForm form = *m.integers();
  const std::string of_scale = form.group == m.in() ? "channel" : Formatted("group{}", form.group);
  return Formatted("{}/{}", Name(form.format), of_scale);
}

// The tensors by type, and those in codes one by one.
struct Stored {
  std::map<std::string, uint64_t> by_type;
  Json quantized = Json::array(), foreign = Json::array();
};
Stored StoredIn(const Model& model) {
  Stored all;
  for (const std::string& name : model.files().names()) {
    if (const QuantizedMatrix* m = model.files().FindQuantized(name)) {
      const auto values = static_cast<uint64_t>(m->out * m->in);
      const uint64_t stored = m->Bytes();
      all.by_type[Name(m->format)] += values;
      all.quantized.push_back({{"tensor", name},
                               {"format", Name(m->format)},
                               {"group", m->group},
                               {"hadamard", m->rotation == nullptr ? Json() : Json(m->rotation->run())},
                               {"rank", m->branch.rank > 0 ? Json(m->branch.rank) : Json()},
                               {"bytes", stored},
                               {"bits_per_weight", 8.0 * static_cast<double>(stored) / static_cast<double>(values)}});
      continue;
    }
    if (const ForeignMatrix* m = model.files().FindForeign(name)) {
      const int64_t values = m->out() * m->in();
      all.by_type[m->scheme()] += static_cast<uint64_t>(values);
      if (!m->HasCodes()) continue;
      all.foreign.push_back({{"tensor", name},
                             {"scheme", m->scheme()},
                             {"bytes", m->bytes()},
                             {"bits_per_weight", 8.0 * static_cast<double>(m->bytes()) / static_cast<double>(values)},
                             {"executed_as", ExecutedAs(*m)}});
      continue;
    }
    const TensorView& tensor = *model.files().Find(name);
    all.by_type[std::string(Name(tensor.dtype))] += tensor.elements();
  }
  return all;
}

}  // namespace

Json Describe(const Model& model) {
  const ModelConfig& c = model.config();
  const Stored stored = StoredIn(model);
  const StoredSize size = StoredSizeOf(model.files());
  Json json{{"schema", "tare.inspect/1"},
            {"model", model.Name()},
            {"family", c.family},
            {"parameters", size.values},
            {"bytes", size.bytes},
            {"stored", stored.by_type},
            {"vocabulary", c.vocabulary},
            {"hidden", c.hidden},
            {"ffn", c.ffn},
            {"layers", c.layers},
            {"heads", c.heads},
            {"kv_heads", c.kv_heads},
            {"head_dim", c.head_dim},
            {"max_positions", c.max_positions},
            {"tied_embeddings", c.tied_embeddings}};
  if (c.projection > 0) json["projection"] = c.projection;
  if (c.SeesImages()) json.update({{"image_size", c.image_size}, {"patch_size", c.patch_size}});
  if (c.kv_rank > 0) json["latents"] = {{"q_rank", c.q_rank}, {"kv_rank", c.kv_rank}, {"value_dim", c.ValueDim()}};
  if (c.streams > 1) json["streams"] = c.streams;
  if (c.shared_ffn > 0) json["shared_ffn"] = c.shared_ffn;
  if (c.registers > 0) json["registers"] = c.registers;
  if (!c.windows.empty()) json["windows"] = c.windows;
  for (int layer = 0; !c.kinds.empty() && layer < c.layers; ++layer) json["kinds"].push_back(KindText(c, layer));
  if (c.scan_channels > 0)
    json["scan"] = {
        {"channels", c.scan_channels}, {"states", c.scan_states}, {"rank", c.scan_rank}, {"taps", c.scan_taps}};
  if (const RotaryConfig& r = c.rotary; c.rotates && (r.type != RotaryConfig::Type::kDefault || r.share != 1))
    json["rotary"] = {{"type", Name(r.type)}, {"share", r.share}};
  for (size_t layer = 0; layer < c.unrotated.size(); ++layer) {
    if (c.unrotated[layer]) json["unrotated"].push_back(layer);
  }
  if (c.sinks) json["sinks"] = true;
  if (c.row_weights == RowWeights::kSoftpick) json["softpick"] = true;
  if (c.experts > 0) json["experts"] = {{"count", c.experts}, {"chosen", c.chosen_experts}};
  for (size_t layer = 0; layer < c.dense.size(); ++layer) {
    if (c.dense[layer]) json["experts"]["without"].push_back(layer);
  }
  if (c.qk_norm) json["qk_norm"] = true;
  if (c.gate != OutputGate::kNone) json["gate"] = c.gate == OutputGate::kPerHead ? "head" : "value";
  if (const QuantizedCheckpoint* file = model.files().quantized()) {
    const Provenance& p = file->provenance();
    json["plan"] = p.plan;
    json["method"] = p.method;
    json["source"] = p.source;
    json["source_sha256"] = p.source_sha256;
    json["quantized"] = stored.quantized;
  }
  if (!stored.foreign.empty()) {
    SchemeTotals all;
    for (const auto& [scheme, totals] : model.files().schemes()) {
      json["schemes"][scheme] = {{"matrices", totals.matrices},
                                 {"values", totals.values},
                                 {"bytes", totals.bytes},
                                 {"bits_per_weight", totals.BitsPerWeight()}};
      all.values += totals.values;
      all.bytes += totals.bytes;
    }
    json["bits_per_weight"] = all.BitsPerWeight();
    json["foreign"] = stored.foreign;
    json["notes"] = model.files().notes();
  }
  if (const std::vector<std::string> names = TokenizersOf(model.folder()); !names.empty()) json["tokenizers"] = names;
  for (int index = 0; index < c.layers; ++index) {
    const LayerWeights& layer = model.layers()[static_cast<size_t>(index)];
    if (layer.lambda.empty()) continue;
    Json lambda{{"lambda", layer.lambda.front()}};
    if (!c.kinds.empty()) lambda["layer"] = index;                 // elsewhere all layers have one
    if (layer.lambda.size() > 1) lambda["lambda"] = layer.lambda;  // an output head each
    if (layer.lambda_init) lambda["lambda_init"] = *layer.lambda_init;
    json["lambda"].push_back(lambda);
  }
  return json;
}

// A tensor's name with * for the numbers of layers and experts, or only of experts.
static std::string NameOf(const std::string& tensor, Together what) {
  std::istringstream parts(tensor);
  std::string name, before;
  for (std::string part; std::getline(parts, part, '.'); before = part) {
    const bool number = part.find_first_not_of("0123456789") == part.npos;
    name += (name.empty() ? "" : ".") + (number && (what == Together::kLayers || before == "experts") ? "*" : part);
  }
  return name;
}

Json MatricesOf(const Json& matrices, Together what) {
  Json rows = Json::array();
  std::map<std::pair<std::string, Json>, size_t> at;
  for (const Json& m : matrices) {
    Json rest = m;
    rest.erase("tensor");
    const std::string name = NameOf(m["tensor"], what);
    const auto [found, added] = at.try_emplace({name, rest}, rows.size());
    if (added) {
      rows.push_back(m);
      rows.back().update({{"tensor", name}, {"count", 1}});
      continue;
    }
    Json& row = rows[found->second];
    row["bytes"] = row["bytes"].get<uint64_t>() + m["bytes"].get<uint64_t>();
    row["count"] = row["count"].get<int64_t>() + 1;
  }
  return rows;
}

}  // namespace tare
