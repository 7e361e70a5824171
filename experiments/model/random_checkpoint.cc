// SPDX-License-Identifier: Apache-2.0
// Random numbers, Tensors, linear layers, experts, whole layers, the embedding, config.json, and WriteRandomCheckpoint.
#include "experiments/model/random_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "experiments/model/config/family.h"
#include "experiments/significance/draws.h"
#include "quant/base/aligned.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

// Sum of four uniform 16-bit numbers, deviation 1: near normal and exact. Counter-based: no cut of the work changes it.
float NormalAt(uint64_t key, uint64_t i) {
  const uint64_t bits = SplitMix64(key ^ SplitMix64(i));
  const int64_t sum =
      static_cast<int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 2 * 0xffff;
  return static_cast<float>(sum) * (1.0f / 37837.0f);  // sqrt(4 / 12) * 65536
}

class Tensors {
 public:
  Tensors(WeightType type, uint64_t seed) : type_(type), seed_(seed) {}

  void Add(const std::string& name, std::vector<int64_t> shape, float deviation, float mean = 0) {
    const auto count = static_cast<size_t>(*ElementCount(shape));
    const size_t width = type_ == WeightType::kF32 ? 4 : 2;
    const uint64_t key = SplitMix64(seed_ + views.size());
    AlignedBuffer<std::byte>& bytes = storage_.emplace_back(count * width);
    constexpr size_t kPart = 1 << 18;
    ParallelFor((count + kPart - 1) / kPart, [&](size_t part, int) {
      for (size_t i = part * kPart; i < std::min(count, (part + 1) * kPart); ++i)
        Store(bytes.data() + i * width, mean + deviation * NormalAt(key, i));
    });
    const DType dtype = type_ == WeightType::kF32    ? DType::kF32
                        : type_ == WeightType::kBf16 ? DType::kBF16
                                                     : DType::kF16;
    views.push_back({name, dtype, std::move(shape), bytes.span()});
  }

  std::vector<TensorView> views;

 private:
  void Store(std::byte* at, float value) const {
    if (type_ == WeightType::kF32) return std::memcpy(at, &value, 4), void();
    const uint16_t bits = type_ == WeightType::kBf16 ? Bf16FromFloat(value) : F16FromFloat(value);
    std::memcpy(at, &bits, 2);
  }

  WeightType type_;
  uint64_t seed_;
  std::deque<AlignedBuffer<std::byte>> storage_;
};

void AddLinear(Tensors& tensors, const std::string& name, MatrixShape shape, bool has_bias) {
  tensors.Add(name + ".weight", {shape.out, shape.in}, 1.0f / std::sqrt(static_cast<float>(shape.in)));
  if (has_bias) tensors.Add(name + ".bias", {shape.out}, 0.1f);
}

// The shape of a fused tensor: all its parts, one below another, or side by side.
MatrixShape FusedShape(const Family& family, const ModelConfig& c, int layer, std::string_view fused) {
  MatrixShape shape;
  for (const LinearPlace& place : LinearOf(family, c, layer)) {
    if (place.fused != fused) continue;
    const MatrixShape part = ShapeOf(place.weight, c);
    shape = place.columns ? MatrixShape{part.out, shape.in + part.in} : MatrixShape{shape.out + part.out, part.in};
  }
  return shape;
}

void AddExperts(Tensors& tensors, const ModelConfig& c, int layer, const LinearPlace& place) {
  const MatrixShape shape = ShapeOf(place.weight, c);
  const bool has_bias = place.bias != nullptr && c.*place.bias;
  for (int expert = 0; place.stacked.empty() && expert < c.experts; ++expert)
    AddLinear(tensors, LinearLayer{&place, layer, expert}.Tensor(c), shape, has_bias);
  if (place.stacked.empty()) return;
  const std::string name = LayerTensor(c, layer, place.stacked);
  tensors.Add(name, {c.experts, shape.in, shape.out}, 1.0f / std::sqrt(static_cast<float>(shape.in)));
  if (has_bias) tensors.Add(name + "_bias", {c.experts, shape.out}, 0.1f);
}

void AddLayer(Tensors& tensors, const Family& family, const ModelConfig& c, int layer) {
  std::vector<std::string_view> done;  // fused tensors
  for (const LinearPlace& place : LinearOf(family, c, layer)) {
    const bool has_bias = place.bias != nullptr && c.*place.bias;
    if (place.experts != nullptr) {
      AddExperts(tensors, c, layer, place);
    } else if (place.fused.empty()) {
      AddLinear(tensors, LayerTensor(c, layer, place.tensor), ShapeOf(place.weight, c), has_bias);
    } else if (!std::ranges::contains(done, place.fused)) {
      done.push_back(place.fused);
      AddLinear(tensors, LayerTensor(c, layer, place.fused), FusedShape(family, c, layer, place.fused), has_bias);
    }
  }
  for (const VectorPlace& place : family.vectors) {
    if (place.In(c, layer))
      tensors.Add(LayerTensor(c, layer, place.tensor), place.shape(c), place.deviation, place.mean);
  }
}

void AddEmbedding(Tensors& tensors, const TensorNames& names, const ModelConfig& c, float deviation) {
  const std::string embedding(names.embedding);
  if (c.SeesImages()) {
    tensors.Add(embedding, {c.hidden, 3, c.patch_size, c.patch_size}, deviation);
    tensors.Add(std::string(names.class_row), LeadingShape(c), deviation);
  } else {
    tensors.Add(embedding, {c.vocabulary, c.hidden}, deviation);
  }
  if (!names.positions.empty()) tensors.Add(std::string(names.positions), PositionsShape(c), deviation);
}

// The family's own defaults supply what c lacks.
std::string ConfigText(const ModelConfig& c) {
  Json json{{"model_type", c.family},
            {"vocab_size", c.vocabulary},
            {"hidden_size", c.hidden},
            {"intermediate_size", std::max(c.ffn, 1)},
            {"num_hidden_layers", c.layers},
            {"num_attention_heads", c.heads},
            {"num_key_value_heads", c.kv_heads},
            {"head_dim", c.head_dim},
            {"rms_norm_eps", c.norm_eps},
            {"max_position_embeddings", c.max_positions},
            {"tie_word_embeddings", c.tied_embeddings},
            {"attention_bias", c.attention_bias},
            {"mlp_bias", c.mlp_bias},
            {"hidden_act", FamilyOf(c).activation},
            {"rope_theta", c.rotary.theta}};
  if (c.rotary.share != 1) json["partial_rotary_factor"] = c.rotary.share;
  if (c.projection > 0) json["projection_dim"] = c.projection;
  if (c.SeesImages()) json.update({{"image_size", c.image_size}, {"patch_size", c.patch_size}});
  if (c.gate == OutputGate::kPerHead) json["headwise_attn_output_gate"] = true;
  if (c.gate == OutputGate::kPerValue) json["elementwise_attn_output_gate"] = true;
  if (c.head_norm_eps > 0) json["attn_rms_norm_eps"] = c.head_norm_eps;
  if (c.noise_heads > 0) json["num_noise_heads"] = c.noise_heads;
  if (!c.windows.empty()) json["sliding_window"] = std::ranges::max(c.windows);
  if (c.experts > 0)
    json.update({{"num_local_experts", c.experts},
                 {"num_experts_per_tok", c.chosen_experts},
                 {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", c.rotary.theta}}}});
  if (c.scan_heads > 0)
    json.update({{"num_heads", c.scan_heads},
                 {"n_groups", c.scan_groups},
                 {"state_size", c.scan_states},
                 {"conv_kernel", c.scan_taps},
                 {"layer_norm_epsilon", c.norm_eps}});
  if (c.scan_channels > 0 && c.scan_heads == 0)
    json.update({{"mamba_expand", c.scan_channels / c.hidden},
                 {"mamba_d_state", c.scan_states},
                 {"mamba_d_conv", c.scan_taps},
                 {"mamba_dt_rank", c.scan_rank},
                 {"layer_norm_eps", c.norm_eps}});
  return json.dump(2) + "\n";
}

}  // namespace

void WriteRandomCheckpoint(const std::filesystem::path& folder, const ModelConfig& wanted, WeightType type,
                           uint64_t seed) {
  if (wanted.rotary.type != RotaryConfig::Type::kDefault)
    Fail("random checkpoint: got scaled rotary positions, expected the default ones");
  const std::string text = ConfigText(wanted);
  const ModelConfig c = ParseConfig(text, (folder / "config.json").string());
  std::filesystem::create_directories(folder);
  Tensors tensors(type, seed);
  const Family& family = FamilyOf(c);
  const float deviation = 1.0f / std::sqrt(static_cast<float>(c.hidden));
  AddEmbedding(tensors, family.names, c, deviation);
  for (int layer = 0; layer < c.layers; ++layer) AddLayer(tensors, family, c, layer);
  tensors.Add(std::string(family.names.final_norm), {c.hidden}, 0, 1 - family.norm_offset);
  if (!family.names.final_norm_bias.empty()) tensors.Add(std::string(family.names.final_norm_bias), {c.hidden}, 0.1f);
  if (!c.tied_embeddings) tensors.Add(std::string(family.names.head), {c.Outputs(), c.hidden}, deviation);
  if (!family.names.head_bias.empty()) tensors.Add(std::string(family.names.head_bias), {c.Outputs()}, 0.1f);
  WriteFileAtomically(folder / "config.json", text);
  WriteSafetensors(folder / "model.safetensors", tensors.views);
}

}  // namespace tare
