// SPDX-License-Identifier: Apache-2.0
// What config.json says of the model, in a checkpoint folder or a quantized checkpoint, under Hugging Face's keys. Both
// spellings of the rotary parameters are accepted: transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters).
// Throws Error if a required key is missing, a value impossible, or a change of the computation not supported.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/model/config/rotary.h"
#include "kernels/attention/heads.h"

namespace tare {

// Typed reading of one JSON object, which must outlive this. Every message names the place.
class ConfigKeys {
 public:
  ConfigKeys(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const;  // and is not null
  bool IsNull(const char* key) const;
  int Integer(const char* key, int smallest) const;
  int Integer(const char* key, int smallest, int otherwise) const {
    return Has(key) ? Integer(key, smallest) : otherwise;
  }
  double Positive(const char* key) const;
  double Positive(const char* key, double otherwise) const { return Has(key) ? Positive(key) : otherwise; }
  double NotNegative(const char* key) const;             // 0 if missing
  std::vector<double> Positives(const char* key) const;  // a list of them
  std::vector<double> Numbers(const char* key) const;    // a list, perhaps with infinities
  bool Flag(const char* key, bool otherwise) const;
  std::string Text(const char* key) const;
  std::vector<std::string> Texts(const char* key) const;
  bool IsText(const char* key) const;
  bool IsList(const char* key) const;
  // A list of integers or nulls.
  std::vector<std::optional<int>> Integers(const char* key, int smallest) const;
  ConfigKeys Object(const char* key) const;
  bool Filled(const char* key) const;  // whether it has anything in it: transformers reads an empty object as missing
  // Refuses a key unless its value is null, false, or one of the accepted JSON texts.
  void Refuse(const char* key, std::initializer_list<const char*> accepted = {}) const;
  // Refuses a setting that has two spellings, here and in `other`, if they differ.
  void Agree(const char* key, const ConfigKeys& other, const char* spelling) const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& Get(const char* key) const;
  [[noreturn]] void Wrong(const char* key, const char* expected) const;
  // read(item) of each of a list; of an item, the key is its value.
  template <typename Read>
  auto List(const char* key, const char* expected, const Read& read) const;

  const nlohmann::json& object_;
  std::string where_;
};

// sliding_window: keys that a query sees; `otherwise` if the key is missing, 0 if it is null.
int ReadWindow(const ConfigKeys& keys, int otherwise);
// The windows of all layers: `window` where layer_types (transformers 5) says sliding_attention or, if that key is
// missing, where `slides` is true, and 0 elsewhere. Empty if no layer has one. Says where layer_types differs from what
// `older`, a key that `slides` is from, says: it goes first, as in transformers.
std::vector<int> ReadWindows(const ConfigKeys& keys, int layers, int window, const std::function<bool(int)>& slides,
                             const char* older = "");
// Says that keys, which other families read, are not read, as in transformers' class of this family.
void NoteUnread(const ConfigKeys& keys, std::string_view family, std::initializer_list<const char*> unread);

// What mixes tokens in a layer.
enum class LayerKind {
  kAttention,        // with queries, keys and values of its own
  kSharedAttention,  // with its own queries over the keys and values of the last kAttention layer
  kMamba,            // a selective scan (kernels/scan/selective_scan.h); the last one's output is the memory
  kMemoryUnit,       // a gate on the memory
  kMambaPair,        // two Mambas of half as many channels, the second times lambda subtracted from the first
};

// A sigmoid gate on attention's output: one value per head, or one per value.
enum class OutputGate { kNone, kPerHead, kPerValue };

// How a router scores experts: by logits, whose softmax gives the shares, or by their sigmoids.
enum class RouterScores : uint8_t { kSoftmax, kSigmoid };

struct Activation;  // experiments/model/activation.h

struct ModelConfig {
  std::string family;  // model_type: names the record in family.h
  int vocabulary = 0;
  int hidden = 0;  // E
  int ffn = 0;     // I
  int layers = 0;
  int heads = 0;  // query heads, each with a softmax map: a differential head has two
  int kv_heads = 0;
  int head_dim = 0;                        // d
  const Activation* activation = nullptr;  // of the feed-forward; null: silu, or the family's own
  float norm_eps = 0;
  int max_positions = 0;
  bool tied_embeddings = false;
  bool headless = false;  // a base model without an LM head; it counts as tied, and has no logits
  bool attention_bias = false, mlp_bias = false;
  bool causal = true;  // whether a token sees none after it
  std::optional<int> bos;
  // In V1 models, the place of the second map's query head within each head or group of heads.
  enum class Pairing { kHalves, kAdjacent };
  Pairing pairing = Pairing::kHalves;
  int noise_heads = 0;               // grouped differential attention: query heads whose map is subtracted
  float head_norm_eps = 0;           // of norms of a head's output, queries or keys, if it differs from norm_eps
  bool head_norm_weight = true;      // whether that norm has a weight, in families where it may
  std::optional<float> lambda_init;  // of all layers; empty: by the layer's depth
  RotaryConfig rotary;
  std::vector<int> windows;  // per layer, how many keys a query sees, its own the last; 0: all; or empty
  std::optional<RotaryConfig> window_rotary;  // of layers with a window, if it differs
  bool sinks = false;                         // whether each query head has a learned sink (kernels/attention/heads.h)
  RowWeights row_weights = {};                // of attention logits (the same)
  int experts = 0;                            // of each layer's feed-forward; 0: one, without a router
  int chosen_experts = 0;                     // of them for each token
  std::vector<bool> dense;                    // per layer, whether it has no experts although others have; or empty
  int dense_ffn = 0;                          // I of these
  bool gate_with_up = false;                  // whether an expert's gate and up are one matrix
  bool shares_sum = true;                     // whether the shares of a token's experts sum to 1, or less
  // Experts with PolyNorm have limits of gate and up and of its bias, in magnitude, and a factor of its result.
  float hidden_clamp = std::numeric_limits<float>::infinity(), bias_clamp = hidden_clamp, unit_scale = 1;
  RouterScores router_scores = {};  // of sigmoids, a bias decides the choice alone, and shares sum to:
  float route_scale = 1;
  int shared_ffn = 0;    // I of an expert that every token passes; 0: none
  bool qk_norm = false;  // norms of queries and keys, before rotary positions
  OutputGate gate = OutputGate::kNone;
  std::optional<float> attention_scale;  // of attention logits; empty: 1 / sqrt(head_dim)
  float full_scale = 1;                  // of those again, in layers without a window
  // Ranks of the latents of queries, and of keys and values; 0: none. Keys' rotated channels, the last, skip them.
  int q_rank = 0, kv_rank = 0;
  int value_dim = 0;              // of a head's values; 0: head_dim
  bool mixes_streams = false;     // whether layers mix residual streams before and after what they add (motif3.cc)
  int streams = 1, sinkhorn = 0;  // n of these, and rounds of Sinkhorn
  float embedding_scale = 1;
  float residual_scale = 1;        // of what attention and feed-forward add to the stream
  float logit_divisor = 1;         // of vocabulary logits, before a cap
  std::optional<float> logit_cap;  // c: vocabulary logits x become c tanh(x / c)
  bool rotates = true;             // whether queries and keys have rotary positions
  int positions_reached = 0;       // by scaled ones: max_positions, or more, where these are the old ones
  std::vector<bool> unrotated;     // per layer, whether it has none although others have; or empty
  // For models whose layers are not all attention.
  std::vector<LayerKind> kinds;  // per layer; empty: all kAttention
  int scan_channels = 0;         // C
  int scan_states = 0;           // N
  int scan_rank = 0;             // R, between x_proj and dt_proj; 0: in_proj makes steps, B and C (Mamba-2)
  int scan_heads = 0;            // of a Mamba-2, each with one step and one rate
  int scan_groups = 1;           // of these, each with its own B and C
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();  // of a Mamba-2, after softplus
  int scan_taps = 0;                                                         // of the convolution before the scan
  bool scan_conv_bias = true;                                                // whether that has a bias
  bool mamba_bias = false;  // whether in_proj and out_proj of a Mamba have biases
  // For models of images, and CLIP's text towers.
  int projection = 0;    // width of the head's output, if that is not vocabulary logits
  bool pools = false;    // whether the head reads the mean of an image's patches: the vocabulary is its classes
  int image_size = 0;    // S: input is images of S x S pixels, not token ids
  int patch_size = 0;    // p; what is left of S at the end is not seen
  int registers = 0;     // rows before the patches, without positions; 0: a class token, with one
  int shorter_side = 0;  // of an image of any size before its middle is cut; 0: it is not known
  std::array<float, 3> pixel_mean{}, pixel_std{};  // of what 8 bits store, over 255; 0: values are stored as they are

  bool SeesImages() const { return image_size > 0; }
  int FirstPatch() const { return std::max(1, registers); }  // in a sequence
  int Patches() const { return image_size / patch_size * (image_size / patch_size); }
  int Outputs() const { return projection > 0 ? projection : vocabulary; }  // of the head

  int64_t ScanColumns() const { return int64_t{scan_groups} * scan_states; }                                 // of B
  int64_t Convolved(int64_t channels) const { return channels + (scan_heads > 0 ? 2 * ScanColumns() : 0); }  // W
  int64_t PairChannels() const { return scan_channels / 2; }                                                 // of each

  int ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  int64_t StreamWidth() const { return int64_t{streams} * hidden; }  // of a token's state between layers
  float AttentionScale(int layer) const;
  LayerKind Kind(int layer) const { return kinds.empty() ? LayerKind::kAttention : kinds[static_cast<size_t>(layer)]; }
  // The layer whose keys and values this layer reads; -1 if it has no attention.
  int KeysLayer(int layer) const;
  int Window(int layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  bool Routes(int layer) const { return experts > 0 && (dense.empty() || !dense[static_cast<size_t>(layer)]); }
  int DenseFfn() const { return dense.empty() ? ffn : dense_ffn; }
  bool CachesLatents(int layer) const { return kv_rank > 0 && Window(layer) == 0; }  // one for all heads
  bool Rotates(int layer) const { return rotates && (unrotated.empty() || !unrotated[static_cast<size_t>(layer)]); }
  const RotaryConfig& Rotary(int layer) const { return Window(layer) > 0 && window_rotary ? *window_rotary : rotary; }
};

// "mamba", "mamba pair", "window", "full", "shared" or "memory unit": what mixes tokens in a layer.
std::string KindText(const ModelConfig& config, int layer);

ModelConfig LoadConfig(const std::filesystem::path& path);
ModelConfig ParseConfig(std::string_view text, const std::string& where);

}  // namespace tare
