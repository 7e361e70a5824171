// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's config.json says of the model (experiments/model/config/read_config.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/model/config/rotary_scaling.h"

namespace tare {

// What mixes tokens in a layer.
enum class LayerKind {
  kAttention,        // with queries, keys and values of its own
  kSharedAttention,  // with its own queries over the keys and values of the last kAttention layer
  kMamba,            // a selective scan (kernels/scan/selective_scan.h); the last one's output is the memory
  kMemoryUnit,       // a gate on the memory
};

// A sigmoid gate on attention's output: one value per head, or one per value.
enum class OutputGate { kNone, kPerHead, kPerValue };

struct ModelConfig {
  std::string family;  // model_type: names the record in family.h
  int vocabulary = 0;
  int hidden = 0;  // E
  int ffn = 0;     // I
  int layers = 0;
  int heads = 0;  // query heads, each with a softmax map: a differential head has two
  int kv_heads = 0;
  int head_dim = 0;  // d
  float norm_eps = 0;
  int max_positions = 0;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<int> bos;
  // Of V1: where the second map's query head is, within each head or group of heads.
  enum class Pairing { kHalves, kAdjacent };
  Pairing pairing = Pairing::kHalves;
  int noise_heads = 0;               // grouped differential attention: query heads whose map is subtracted
  float head_norm_eps = 0;           // of the norm of a head's output, if it differs from norm_eps
  bool head_norm_weight = true;      // whether that norm has a weight, in families where it may
  std::optional<float> lambda_init;  // of all layers; empty: by the layer's depth
  RotaryConfig rotary;
  std::vector<int> windows;  // per layer, how many keys a query sees, its own the last; 0: all; or empty
  std::optional<RotaryConfig> window_rotary;  // of layers with a window, if it differs
  bool sinks = false;                         // whether each query head has a learned sink (kernels/attention/heads.h)
  int experts = 0;                            // of each layer's feed-forward; 0: one, without a router
  int chosen_experts = 0;                     // of them for each token
  bool gate_with_up = false;                  // whether an expert's gate and up are one matrix, their rows in turns
  bool shares_sum = true;                     // whether the shares of a token's experts sum to 1, or less
  bool qk_norm = false;                       // norms of queries and keys, before rotary positions
  OutputGate gate = OutputGate::kNone;
  std::optional<float> attention_scale;  // of attention logits; empty: 1 / sqrt(head_dim)
  float embedding_scale = 1;
  float residual_scale = 1;        // of what attention and feed-forward add to the stream
  float logit_divisor = 1;         // of vocabulary logits, before a cap
  std::optional<float> logit_cap;  // c: vocabulary logits x become c tanh(x / c)
  bool rotates = true;             // whether queries and keys have rotary positions
  std::vector<bool> unrotated;     // per layer, whether it has none although others have; or empty
  // For models whose layers are not all attention.
  std::vector<LayerKind> kinds;  // per layer; empty: all kAttention
  int scan_channels = 0;         // C
  int scan_states = 0;           // N
  int scan_rank = 0;             // R, between x_proj and dt_proj
  int scan_taps = 0;             // of the convolution before the scan
  bool scan_conv_bias = true;    // whether that has a bias
  bool mamba_bias = false;       // whether in_proj and out_proj of a Mamba have biases
  // For CLIP's towers.
  int projection = 0;       // width of the head's output, if that is not vocabulary logits
  int image_size = 0;       // S: input is images of S x S pixels, not token ids
  int patch_size = 0;       // p, which divides S
  bool quick_gelu = false;  // x sigmoid(1.702 x) instead of the exact GELU

  bool SeesImages() const { return image_size > 0; }
  int Patches() const { return image_size / patch_size * (image_size / patch_size); }
  int Outputs() const { return projection > 0 ? projection : vocabulary; }  // of the head

  LayerKind Kind(int layer) const { return kinds.empty() ? LayerKind::kAttention : kinds[static_cast<size_t>(layer)]; }
  // The layer whose keys and values this layer reads; -1 if it has no attention.
  int KeysLayer(int layer) const;
  int Window(int layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  bool Rotates(int layer) const { return rotates && (unrotated.empty() || !unrotated[static_cast<size_t>(layer)]); }
  const RotaryConfig& Rotary(int layer) const { return Window(layer) > 0 && window_rotary ? *window_rotary : rotary; }
};

// "mamba", "window", "full", "shared" or "memory unit": what mixes tokens in a layer.
std::string KindText(const ModelConfig& config, int layer);

}  // namespace tare
