// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/random_checkpoint.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <format>

#include <nlohmann/json.hpp>

#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/float16.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

// Counter-based: value i of tensor t does not depend on how the work is cut. SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Sum of four uniform 16-bit numbers, centred and scaled to deviation 1: near enough to normal, and exact arithmetic.
float NormalAt(uint64_t key, uint64_t i) {
  const uint64_t bits = Mix(key ^ Mix(i));
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
    const uint64_t key = Mix(seed_ + views.size());
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
    if (type_ == WeightType::kF32) {
      std::memcpy(at, &value, 4);
      return;
    }
    const uint16_t bits = type_ == WeightType::kBf16 ? Bf16FromFloat(value) : F16FromFloat(value);
    std::memcpy(at, &bits, 2);
  }

  WeightType type_;
  uint64_t seed_;
  std::deque<AlignedBuffer<std::byte>> storage_;
};

void AddLinear(Tensors& tensors, const std::string& name, int64_t out, int64_t in, bool has_bias) {
  tensors.Add(name + ".weight", {out, in}, 1.0f / std::sqrt(static_cast<float>(in)));
  if (has_bias) tensors.Add(name + ".bias", {out}, 0.1f);
}

void AddLayer(Tensors& tensors, const ModelConfig& c, int layer) {
  const std::string prefix = std::format("model.layers.{}.", layer);
  const int64_t E = c.hidden, q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
  tensors.Add(prefix + "input_layernorm.weight", {E}, 0, 1);
  tensors.Add(prefix + "post_attention_layernorm.weight", {E}, 0, 1);
  AddLinear(tensors, prefix + "self_attn.q_proj", q, E, c.attention_bias);
  AddLinear(tensors, prefix + "self_attn.k_proj", kv, E, c.attention_bias);
  AddLinear(tensors, prefix + "self_attn.v_proj", kv, E, c.attention_bias);
  AddLinear(tensors, prefix + "self_attn.o_proj", E, q, c.attention_bias);
  AddLinear(tensors, prefix + "mlp.gate_proj", c.ffn, E, c.mlp_bias);
  AddLinear(tensors, prefix + "mlp.up_proj", c.ffn, E, c.mlp_bias);
  AddLinear(tensors, prefix + "mlp.down_proj", E, c.ffn, c.mlp_bias);
  if (!c.Differential()) return;
  for (const char* name : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})
    tensors.Add(prefix + "self_attn." + name, {c.head_dim}, 0.1f);
}

std::string ConfigText(const ModelConfig& c) {
  nlohmann::ordered_json json{{"model_type", c.family},
                              {"vocab_size", c.vocabulary},
                              {"hidden_size", c.hidden},
                              {"intermediate_size", c.ffn},
                              {"num_hidden_layers", c.layers},
                              {"num_attention_heads", c.heads},
                              {"num_key_value_heads", c.kv_heads},
                              {"head_dim", c.head_dim},
                              {"rms_norm_eps", c.norm_eps},
                              {"max_position_embeddings", c.max_positions},
                              {"tie_word_embeddings", c.tied_embeddings},
                              {"attention_bias", c.attention_bias},
                              {"mlp_bias", c.mlp_bias},
                              {"hidden_act", "silu"},
                              {"rope_theta", c.rotary.theta}};
  return json.dump(2) + "\n";
}

}  // namespace

void WriteRandomCheckpoint(const std::filesystem::path& folder, const ModelConfig& c, WeightType type, uint64_t seed) {
  if (c.rotary.type != RotaryConfig::Type::kDefault)
    Fail("random checkpoint: got scaled rotary positions, expected the default ones");
  std::filesystem::create_directories(folder);
  Tensors tensors(type, seed);
  tensors.Add("model.embed_tokens.weight", {c.vocabulary, c.hidden}, 1.0f / std::sqrt(static_cast<float>(c.hidden)));
  for (int layer = 0; layer < c.layers; ++layer) AddLayer(tensors, c, layer);
  tensors.Add("model.norm.weight", {c.hidden}, 0, 1);
  if (!c.tied_embeddings) AddLinear(tensors, "lm_head", c.vocabulary, c.hidden, false);
  WriteFileAtomically(folder / "config.json", ConfigText(c));
  WriteSafetensors(folder / "model.safetensors", tensors.views);
}

}  // namespace tare
