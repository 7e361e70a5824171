// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/equivalent_weights.h"

#include <algorithm>
#include <format>

#include <nlohmann/json.hpp>

#include "experiments/model/weights.h"
#include "kernels/attention/heads.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

std::vector<OutputHead> HeadsOf(const ModelConfig& c) {
  return c.Differential() ? DiffLlamaHeads(c.heads, c.kv_heads) : StandardHeads(c.heads, c.kv_heads);
}

std::vector<float> Values(const TensorView& tensor) {
  const WeightMatrix column = StoredMatrix(tensor, "tensor '" + tensor.name + "'");
  std::vector<float> values(static_cast<size_t>(column.out));
  for (int64_t i = 0; i < column.out; ++i) RowAsFloat(column, i, values.data() + i);
  return values;
}

// A layer's tensors by what stands behind "model.layers.N.".
class LayerChanges {
 public:
  LayerChanges(EquivalentWeights& weights, const Checkpoint& files, int layer)
      : changes_(weights.changes), files_(files), prefix_(std::format("model.layers.{}.", layer)) {}

  std::string Name(std::string_view tensor) const { return prefix_ + std::string(tensor); }
  TensorChange& Of(std::string_view tensor) {
    TensorChange& change = changes_[Name(tensor)];
    change.source = Name(tensor);
    return change;
  }
  // What the output side of a projection does, its bias does too.
  void AlsoBias(const std::string& projection) {
    if (!files_.Has(Name(projection + ".bias"))) return;
    const TensorChange& weight = Of(projection + ".weight");
    TensorChange& bias = Of(projection + ".bias");
    bias.out_scale = weight.out_scale;
    bias.out = weight.out;
    bias.out_order = weight.out_order;
  }

 private:
  std::map<std::string, TensorChange>& changes_;
  const Checkpoint& files_;
  std::string prefix_;
};

// Rows of v_proj such that the values of one output head follow each other.
std::vector<int64_t> ValueOrder(const ModelConfig& config) {
  std::vector<int64_t> order;
  std::vector<bool> taken(static_cast<size_t>(config.kv_heads), false);
  for (const OutputHead& head : HeadsOf(config)) {
    if (taken[head.v[0]]) continue;  // another head with the same values
    for (const int slice : head.v) {
      if (slice == kNoMap) continue;
      taken[slice] = true;
      for (int c = 0; c < config.head_dim; ++c) order.push_back(int64_t{slice} * config.head_dim + c);
    }
  }
  TARE_CHECK(static_cast<int64_t>(order.size()) == int64_t{config.kv_heads} * config.head_dim);
  return order;
}

std::vector<float> Inverse(const std::vector<float>& values) {
  std::vector<float> inverse;
  for (const float x : values) inverse.push_back(1 / x);
  return inverse;
}

// Consecutive blocks of inputs.
void TurnInputs(const Hadamard& rotation, int64_t out, int64_t in, float* w) {
  TARE_CHECK(in % rotation.size() == 0);
  ParallelFor(static_cast<size_t>(out), [&](size_t row, int) {
    float* values = w + static_cast<int64_t>(row) * in;
    for (int64_t i = 0; i < in; i += rotation.size()) rotation.Rotate(values + i, values + i);
  });
}

// Blocks of outputs, consecutive in `order`; sixteen columns at a time, which share cache lines.
void TurnOutputs(const Hadamard& rotation, const std::vector<int64_t>& order, int64_t out, int64_t in, float* w) {
  constexpr int64_t kColumns = 16;
  const int64_t block = rotation.size();
  TARE_CHECK(out % block == 0);
  ParallelFor(static_cast<size_t>((in + kColumns - 1) / kColumns), [&](size_t part, int) {
    const int64_t first = static_cast<int64_t>(part) * kColumns, count = std::min(kColumns, in - first);
    thread_local std::vector<float> columns;
    columns.resize(static_cast<size_t>(kColumns * block));
    for (int64_t begin = 0; begin < out; begin += block) {
      const auto row = [&](int64_t o) { return w + (order.empty() ? begin + o : order[begin + o]) * in + first; };
      for (int64_t o = 0; o < block; ++o) {
        for (int64_t c = 0; c < count; ++c) columns[c * block + o] = row(o)[c];
      }
      for (int64_t c = 0; c < count; ++c) rotation.Rotate(columns.data() + c * block, columns.data() + c * block);
      for (int64_t o = 0; o < block; ++o) {
        for (int64_t c = 0; c < count; ++c) row(o)[c] = columns[c * block + o];
      }
    }
  });
}

// [out, in] in f32.
AlignedBuffer<float> Changed(const WeightMatrix& stored, const TensorChange& change) {
  AlignedBuffer<float> w(static_cast<size_t>(stored.out * stored.in));
  ParallelFor(static_cast<size_t>(stored.out), [&](size_t row, int) {
    float* values = w.data() + static_cast<int64_t>(row) * stored.in;
    RowAsFloat(stored, static_cast<int64_t>(row), values);
    const float by_row = change.out_scale.empty() ? 1.0f : change.out_scale[row];
    for (int64_t i = 0; i < stored.in; ++i) {
      if (change.ones) values[i] = 1;
      values[i] *= (change.in_scale.empty() ? 1.0f : change.in_scale[i]) * by_row;
    }
  });
  if (change.in != nullptr) TurnInputs(*change.in, stored.out, stored.in, w.data());
  if (change.out != nullptr) TurnOutputs(*change.out, change.out_order, stored.out, stored.in, w.data());
  return w;
}

}  // namespace

std::string EquivalentConfig(const std::filesystem::path& model, bool unties) {
  const std::optional<std::string> text = CheckpointText(model, "config.json");
  TARE_CHECK(text.has_value());
  if (!unties) return *text;
  auto config = nlohmann::ordered_json::parse(*text);
  config["tie_word_embeddings"] = false;
  return config.dump(2) + "\n";
}

EquivalentWeights Rotated(const Checkpoint& files, const ModelConfig& c, uint64_t seed) {
  const auto stream = std::make_shared<const Hadamard>(c.hidden, seed);
  // An odd number of value heads has slices in several differential heads, beside another each time.
  const bool turns_values = !c.Differential() || c.kv_heads % 2 == 0;
  std::shared_ptr<const Hadamard> values;
  if (turns_values) values = std::make_shared<const Hadamard>(c.Differential() ? 2 * c.head_dim : c.head_dim, seed + 1);
  EquivalentWeights w{.unties = c.tied_embeddings};
  w.changes["model.embed_tokens.weight"] = {.source = "model.embed_tokens.weight", .in = stream};
  w.changes["lm_head.weight"] = {.source = c.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                                 .in_scale = Values(*files.Find("model.norm.weight")),
                                 .in = stream};
  w.changes["model.norm.weight"] = {.source = "model.norm.weight", .ones = true};
  for (int layer = 0; layer < c.layers; ++layer) {
    LayerChanges of(w, files, layer);
    const auto behind = [&](const char* norm, std::initializer_list<const char*> projections) {
      const std::vector<float> weight = Values(*files.Find(of.Name(norm)));
      of.Of(norm).ones = true;
      for (const char* projection : projections) {
        TensorChange& change = of.Of(projection);
        change.in_scale = weight;
        change.in = stream;
      }
    };
    behind("input_layernorm.weight", {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"});
    behind("post_attention_layernorm.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"});
    of.Of("self_attn.v_proj.weight").out = values;
    if (turns_values) of.Of("self_attn.v_proj.weight").out_order = ValueOrder(c);
    of.Of("self_attn.o_proj.weight").in = values;
    of.Of("self_attn.o_proj.weight").out = stream;
    of.Of("mlp.down_proj.weight").out = stream;
    for (const char* projection : {"self_attn.v_proj", "self_attn.o_proj", "mlp.down_proj"}) of.AlsoBias(projection);
  }
  return w;
}

std::vector<Site> SmoothedSites(const ModelConfig& config) {
  std::vector<Site> sites{Site::kQProjIn, Site::kGateProjIn, Site::kDownProjIn};
  if (!config.Differential()) sites.push_back(Site::kOProjIn);
  return sites;
}

EquivalentWeights Smoothed(const Checkpoint& files, const ModelConfig& c, const std::vector<LayerSmoothing>& layers) {
  EquivalentWeights w;
  TARE_CHECK(static_cast<int>(layers.size()) == c.layers);
  for (int layer = 0; layer < c.layers; ++layer) {
    LayerChanges of(w, files, layer);
    for (const auto& [site, s] : layers[layer]) {
      const auto move = [&](const char* before, std::initializer_list<const char*> behind) {
        of.Of(before).out_scale = Inverse(s);
        for (const char* projection : behind) of.Of(projection).in_scale = s;
      };
      if (site == Site::kQProjIn) {
        move("input_layernorm.weight",
             {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"});
      } else if (site == Site::kGateProjIn) {
        move("post_attention_layernorm.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"});
      } else if (site == Site::kDownProjIn) {
        move("mlp.up_proj.weight", {"mlp.down_proj.weight"});
        of.AlsoBias("mlp.up_proj");
      } else {
        TARE_CHECK(site == Site::kOProjIn && !c.Differential());
        move("self_attn.v_proj.weight", {});
        of.AlsoBias("self_attn.v_proj");
        std::vector<float>& by_query_head = of.Of("self_attn.o_proj.weight").in_scale;
        for (const OutputHead& head : HeadsOf(c)) {
          const auto begin = s.begin() + ptrdiff_t{head.v[0]} * c.head_dim;
          by_query_head.insert(by_query_head.end(), begin, begin + c.head_dim);
        }
      }
    }
  }
  return w;
}

void WriteEquivalent(const Checkpoint& files, const std::filesystem::path& model, const EquivalentWeights& weights,
                     const Provenance& provenance, const std::filesystem::path& out, const Progress& progress) {
  QuantizedCheckpointWriter file(out, provenance);
  file.AddFile("config.json", EquivalentConfig(model, weights.unties));
  for (const char* name : {"tokenizer.model", "tokenizer_config.json"}) {
    if (const auto text = CheckpointText(model, name)) file.AddFile(name, *text);
  }
  std::vector<std::string> names = files.names();
  for (const auto& [name, change] : weights.changes) {
    if (!files.Has(name)) names.push_back(name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    ThrowIfStopped();
    const auto found = weights.changes.find(names[i]);
    if (found == weights.changes.end()) {
      file.AddTensor(*files.Find(names[i]));
    } else {
      const TensorView& source = *files.Find(found->second.source);
      const AlignedBuffer<float> values = Changed(StoredMatrix(source, "tensor '" + source.name + "'"), found->second);
      file.AddTensor({names[i], DType::kF32, source.shape, std::as_bytes(values.span())});
      files.Release(source.name);
    }
    if (progress) progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(names.size()), "tensors");
  }
  file.Commit();
}

}  // namespace tare
