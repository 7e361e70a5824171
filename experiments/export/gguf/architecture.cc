// SPDX-License-Identifier: Apache-2.0
// Checks of what llama.cpp fixes in its code, groups of keys, a file's tensors and their pieces, and the public calls.
#include "experiments/export/gguf/export.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/activation.h"
#include "experiments/model/config/family.h"
#include "quant/base/message.h"

namespace tare {
namespace {

[[noreturn]] void CannotHold(const std::string& where, const std::string& got, const std::string& expected) {
  Fail("{}: to gguf: got {}, expected {}; a GGUF file cannot hold it", where, got, expected);
}

// llama.cpp (0.7.0) reads neither key here; gpt-oss itself does not truncate, and all its GGUF files are computed so.
void CheckYarn(const RotaryConfig& rotary, std::string_view family, const std::string& where) {
  const RotaryConfig fixed;
  if (rotary.fast_rotations != fixed.fast_rotations || rotary.slow_rotations != fixed.slow_rotations)
    CannotHold(where,
               Formatted("yarn with beta_fast {} and beta_slow {}", rotary.fast_rotations, rotary.slow_rotations),
               Formatted("{} and {}", fixed.fast_rotations, fixed.slow_rotations));
  if (rotary.factor < 1) CannotHold(where, Formatted("yarn with factor {}", rotary.factor), "1 or more");
  if (!rotary.truncate && family != "gpt_oss") CannotHold(where, "yarn with truncate false", "true");
  if (!rotary.truncate)
    Notice("llama.cpp 0.7.0 computes yarn as with truncate true, so its logits are not those of this gpt-oss");
}

void CheckRotary(const RotaryConfig& rotary, std::string_view family, const std::string& where) {
  if (rotary.layout != RotaryConfig::Layout::kHalfSplit)
    CannotHold(where, "rotary positions of neighbouring channels",
               "those of halves; try tare convert to the model's own family first");
  if (rotary.original_positions != std::floor(rotary.original_positions))
    CannotHold(where, Formatted("original_max_position_embeddings {}", rotary.original_positions), "a whole number");
  if (rotary.type == RotaryConfig::Type::kYarn) CheckYarn(rotary, family, where);
  if (rotary.type == RotaryConfig::Type::kLongRope && family != "phi3")
    CannotHold(where, "rotary positions of type longrope", "default, linear, llama3 or yarn");
}

// Every `period`-th layer must see all keys and the others must have a window, because llama.cpp fixes that.
void CheckPeriod(const ModelConfig& c, int period, const std::string& text, const std::string& where) {
  for (int layer = 0; layer < c.layers; ++layer) {
    if ((c.Window(layer) == 0) != ((layer + 1) % period == 0))
      CannotHold(where, Formatted("layer {} {} a window", layer, c.Window(layer) == 0 ? "without" : "with"),
                 Formatted("{} to see all keys and the others a window", text));
  }
}

void CheckGemma(const ModelConfig& c, const std::string& where) {
  CheckPeriod(c, 6, "every sixth layer", where);
  constexpr int kLayersOf27B = 62;
  const int scalar = c.layers == kLayersOf27B ? c.hidden / c.heads : c.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(scalar));
  if (c.attention_scale.value_or(scale) != scale)
    CannotHold(where, Formatted("attention logits times {}", *c.attention_scale),
               Formatted("{}, of query_pre_attn_scalar {}", scale, scalar));
  if (c.rotary.type == RotaryConfig::Type::kYarn && c.rotary.attention_factor != YarnAttentionFactor(c.rotary.factor))
    CannotHold(where, Formatted("yarn with attention_factor {}", c.rotary.attention_factor),
               Formatted("{}, which follows from its factor", YarnAttentionFactor(c.rotary.factor)));
  if (c.window_rotary && c.window_rotary->type != RotaryConfig::Type::kDefault)
    CannotHold(where, "scaled rotary positions in layers with a window", "unscaled ones");
  CheckRotary(*c.window_rotary, c.family, where);
}

void CheckSmolLm3(const ModelConfig& c, const std::string& where) {
  constexpr int kPeriod = 4;
  for (int layer = 0; layer < c.layers; ++layer) {
    if (c.Rotates(layer) == ((layer + 1) % kPeriod == 0))
      CannotHold(where, Formatted("layer {} {} rotary positions", layer, c.Rotates(layer) ? "with" : "without"),
                 "every fourth layer without them");
  }
}

// Biases and widths for which llama.cpp has tensors.
void CheckShapes(const ModelConfig& c, const std::string& family, const std::string& where) {
  constexpr std::string_view kWithBiases[]{"llama", "mixtral", "qwen2", "granite", "gpt_oss"};
  if (c.attention_bias && !std::ranges::contains(kWithBiases, family))
    CannotHold(where, "biases of attention", "none in " + WithArticle(family));
  if (!c.attention_bias && family == "gpt_oss") CannotHold(where, "a gpt_oss without biases of attention", "biases");
  if (c.mlp_bias && family != "llama" && family != "granite" && family != "gpt_oss")
    CannotHold(where, "biases of the feed-forward", "none in " + WithArticle(family));
  const bool is_square = family == "phi3" || family == "olmo2" || family == "olmo3";
  if (is_square && c.heads * c.head_dim != c.hidden)
    CannotHold(where, Formatted("{} heads of width {}", c.heads, c.head_dim),
               Formatted("heads that are as wide as the hidden size {} together", c.hidden));
}

// Windows of all layers in phi3, of most in olmo3, of every other in gpt-oss; of none in other families.
void CheckWindows(const ModelConfig& c, const std::string& family, const std::string& where) {
  const bool any = std::ranges::any_of(c.windows, [](int window) { return window > 0; });
  if (family == "gpt_oss") return CheckPeriod(c, 2, "every second layer", where);
  if (family == "olmo3" && !any) CannotHold(where, "an olmo3 without windows", "windows in some layers");
  if (any && family == "phi3")
    Notice("llama.cpp 0.7.0 lets every query of a phi3 see all keys, and ignores its window");
  if (any && family != "olmo3" && family != "phi3")
    CannotHold(where, "layers that see a window of keys", "layers that see all");
}

// llama3's and longrope's divisors are tensors.
void AddRotaryKeys(const RotaryConfig& rotary, const std::string& prefix, gguf::MetadataWriter& out) {
  using Type = RotaryConfig::Type;
  const std::string scaling = prefix + "rope.scaling.";
  out.Real(prefix + "rope.freq_base", rotary.theta);
  if (rotary.type == Type::kLinear || rotary.type == Type::kYarn) {
    out.Text(scaling + "type", Name(rotary.type));
    out.Real(scaling + "factor", rotary.factor);
  }
  if (rotary.type == Type::kYarn || rotary.type == Type::kLongRope)
    out.Number(scaling + "original_context_length", static_cast<int64_t>(rotary.original_positions));
  if (rotary.type == Type::kLongRope) out.Real(scaling + "attn_factor", rotary.attention_factor);
  if (rotary.type != Type::kYarn) return;
  // llama.cpp multiplies its own factor, of the same formula, by this.
  const double usual = YarnAttentionFactor(rotary.factor);
  if (rotary.attention_factor != usual) out.Real(scaling + "attn_factor", rotary.attention_factor / usual);
  out.Flag(scaling + "yarn_truncate", rotary.truncate);
  out.Real(scaling + "yarn_beta_fast", rotary.fast_rotations);
  out.Real(scaling + "yarn_beta_slow", rotary.slow_rotations);
}

// llama.cpp fixes which layers have a window, except for olmo3.
void AddWindowKeys(const ModelConfig& c, const std::string& prefix, gguf::MetadataWriter& out) {
  const int window = c.windows.empty() ? 0 : *std::ranges::max_element(c.windows);
  if (window > 0) out.Number(prefix + "attention.sliding_window", window);
  if (c.family != "olmo3") return;
  std::vector<bool> slides;
  for (const int of_layer : c.windows) slides.push_back(of_layer > 0);
  out.Flags(prefix + "attention.sliding_window_pattern", slides);
}

class FileTensors {
 public:
  FileTensors(const ModelConfig& config, const gguf::Architecture& architecture, const std::string& where)
      : config_(config), architecture_(architecture), where_(where), family_(FamilyOf(config)) {}

  std::vector<GgufTensor> All() {
    Add(std::string(family_.names.embedding), GgufKind::kEmbedding, config_.vocabulary);
    Add(std::string(family_.names.final_norm), GgufKind::kVector, config_.hidden);
    if (!config_.tied_embeddings || architecture_.Has(gguf::kHead))
      all_.push_back({.name = FileNameOf(std::string(family_.names.head)),
                      .kind = GgufKind::kEmbedding,
                      .pieces = {{.tensor = std::string(HeadTensor(config_)), .count = config_.vocabulary}}});
    for (int layer = 0; layer < config_.layers; ++layer) {
      first_of_layer_ = std::ssize(all_);
      for (const LinearLayer& linear : LinearLayersOf(config_, layer)) AddLinear(linear);
      for (const VectorPlace& vector : family_.vectors) {
        if (vector.In(config_, layer))
          Add(LayerTensor(config_, layer, vector.tensor), GgufKind::kVector, vector.shape(config_)[0]);
      }
    }
    return std::move(all_);
  }

 private:
  void Add(const std::string& tensor, GgufKind kind, int64_t rows) {
    all_.push_back({.name = FileNameOf(tensor), .kind = kind, .pieces = {{.tensor = tensor, .count = rows}}});
  }

  void AddLinear(const LinearLayer& linear) {
    const LinearPlace& place = *linear.place;
    const std::string stored =
        LayerTensor(config_, linear.layer, place.fused.empty() ? place.tensor : place.fused);  // with {} for an expert
    const int64_t rows = ShapeOf(place.weight, config_).out;
    const bool in_turns = architecture_.Has(gguf::kInTurns) && place.weight == Site::kExpertsGateUpW;
    for (const auto& [suffix, kind] :
         {std::pair(".weight", GgufKind::kMatrix), std::pair(".bias", GgufKind::kVector)}) {
      const bool is_weight = kind == GgufKind::kMatrix;
      if (!is_weight && (place.bias == nullptr || !(config_.*place.bias))) continue;
      const std::string name = FileNameOf(stored + suffix), own = linear.Tensor(config_) + suffix;
      if (in_turns) {
        Append(name, kind, linear, {.tensor = own, .first = 0, .step = 2, .count = rows / 2});
        Append(gguf::UpOfGate(name), kind, linear, {.tensor = own, .first = 1, .step = 2, .count = rows / 2});
      } else {
        Append(name, kind, linear, {.tensor = own, .count = rows});
      }
    }
  }

  // Appends the piece to the layer's tensor of this name, or to a new one.
  void Append(const std::string& name, GgufKind kind, const LinearLayer& linear, const GgufPiece& piece) {
    auto found = std::ranges::find(all_.begin() + first_of_layer_, all_.end(), name, &GgufTensor::name);
    if (found == all_.end()) {
      all_.push_back({.name = name,
                      .kind = kind,
                      .experts = linear.expert ? config_.experts : 0,
                      .rotated_heads = RotatedHeads(linear.place->weight)});
      found = all_.end() - 1;
    }
    found->pieces.push_back(piece);
  }

  int64_t RotatedHeads(Site weight) const {
    if (!architecture_.Has(gguf::kReordersRows)) return 0;
    return weight == Site::kQProjW ? config_.heads : weight == Site::kKProjW ? config_.kv_heads : 0;
  }

  std::string FileNameOf(const std::string& tensor) const {
    const std::string theirs = gguf::FileName(architecture_, tensor);
    if (theirs.empty())
      Fail("{}: to gguf: tensor '{}': is none of llama.cpp's {}; a GGUF file cannot hold it", where_, tensor,
           architecture_.name);
    return theirs;
  }

  const ModelConfig& config_;
  const gguf::Architecture& architecture_;
  const std::string& where_;
  const Family& family_;
  std::vector<GgufTensor> all_;
  ptrdiff_t first_of_layer_ = 0;
};

}  // namespace

const gguf::Architecture& GgufArchitectureOf(const ModelConfig& c, const std::string& where) {
  const gguf::Architecture* known = gguf::ArchitectureOfFamily(c.family == "mistral" ? "llama" : c.family);
  if (known == nullptr)
    CannotHold(where, WithArticle(c.family) + " model",
               "one of llama.cpp's architectures that Tare knows: mistral, " + gguf::FamiliesText());
  const std::string family(known->family);
  const bool is_gemma = family == "gemma3_text";
  if (c.activation != nullptr && c.activation != FindActivation(FamilyOf(c).activation))
    CannotHold(where, Formatted("hidden_act {}", c.activation->Name()), std::string(FamilyOf(c).activation));
  if (!c.dense.empty()) CannotHold(where, "layers without experts", "experts in every layer");
  if (!c.causal) CannotHold(where, "is_causal false", "a model whose tokens see none after them");
  if (c.gate != OutputGate::kNone) CannotHold(where, "gates of attention's output", "none");
  if (c.attention_scale && !is_gemma && family != "granite")
    CannotHold(where, "another scale of attention logits", "the head's width");
  if (family == "qwen3_moe" && !c.shares_sum)
    CannotHold(where, "norm_topk_prob false", "shares of a token's experts that sum to 1");
  CheckShapes(c, family, where);
  CheckRotary(c.rotary, family, where);
  if (c.rotary.type == RotaryConfig::Type::kLlama3 && (!known->Has(gguf::kReordersRows) || family == "smollm3"))
    CannotHold(where, "rotary positions of type llama3", "default, linear or yarn in " + WithArticle(family));
  if (is_gemma) CheckGemma(c, where);
  if (!is_gemma) CheckWindows(c, family, where);
  if (family == "smollm3") CheckSmolLm3(c, where);
  return *known;
}

void AddModelKeys(const ModelConfig& c, const gguf::Architecture& architecture, gguf::MetadataWriter& out) {
  const std::string prefix = std::string(architecture.name) + ".";
  const std::pair<const char*, int64_t> numbers[]{{"vocab_size", c.vocabulary},
                                                  {"context_length", c.max_positions},
                                                  {"embedding_length", c.hidden},
                                                  {"block_count", c.layers},
                                                  {"feed_forward_length", c.ffn},
                                                  {"attention.head_count", c.heads},
                                                  {"attention.head_count_kv", c.kv_heads},
                                                  {"attention.key_length", c.head_dim},
                                                  {"attention.value_length", c.head_dim},
                                                  {"rope.dimension_count", c.rotary.Channels(c.head_dim)}};
  for (const auto& [key, number] : numbers) out.Number(prefix + key, number);
  out.Real(prefix + "attention.layer_norm_rms_epsilon", c.norm_eps);
  AddRotaryKeys(c.rotary, prefix, out);
  if (architecture.Has(gguf::kExperts)) {
    out.Number(prefix + "expert_count", c.experts);
    out.Number(prefix + "expert_used_count", c.chosen_experts);
    out.Number(prefix + "expert_feed_forward_length", c.ffn);
  }
  AddWindowKeys(c, prefix, out);
  if (c.family == "granite") {
    out.Real(prefix + "attention.scale", *c.attention_scale);
    out.Real(prefix + "embedding_scale", c.embedding_scale);
    out.Real(prefix + "residual_scale", c.residual_scale);
    out.Real(prefix + "logit_scale", c.logit_divisor);
  }
  if (c.logit_cap) out.Real(prefix + "final_logit_softcapping", *c.logit_cap);
  if (c.family == "gemma3_text") out.Real(prefix + "rope.freq_base_swa", c.window_rotary->theta);
}

std::vector<GgufTensor> GgufTensors(const ModelConfig& config, const gguf::Architecture& architecture,
                                    const std::string& where) {
  return FileTensors(config, architecture, where).All();
}

}  // namespace tare
