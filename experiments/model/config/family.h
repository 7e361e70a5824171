// SPDX-License-Identifier: Apache-2.0
// A model family is one record: the keys of config.json that it reads, the names of its tensors, its head table, how a
// layer is loaded and computed, which weight changes preserve the output. Other code knows no family by name. Records
// end the families' own sources (families/llama.h, families/differential.cc); families/table.cc lists them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/config/config.h"
#include "kernels/attention/heads.h"
#include "quant/plan/site.h"

namespace tare {

class Checkpoint;
class ConfigKeys;
class Weights;
struct LayerCall;
struct LayerWeights;
class LinearWeights;

// A linear layer inside each layer that has its sites (HasSite). Tensors are named without the layer's prefix.
struct LinearPlace {
  Site weight;
  std::string_view tensor;  // TENSOR.weight [MatrixShape], and TENSOR.bias; of experts with {} for the expert's number
  LinearWeights LayerWeights::* linear = nullptr;  // null: one for each expert
  bool ModelConfig::* bias = nullptr;              // whether it has a bias; null: never
  std::string_view norm = {};  // the norm whose output it multiplies; empty: it multiplies something else
  // The stored tensor of which it is some rows, after those of the places before it; empty: it is a tensor of its own.
  // Checkpoints show the rows as TENSOR (experiments/model/linear/weights.h). Of experts: a tensor [experts, out, in].
  std::string_view fused = {};
  bool columns = false;  // whether it is some columns of that; the first of such places has the bias
  std::vector<LinearWeights> LayerWeights::* experts = nullptr;  // in the place of linear
  // The stored tensor [experts, in, out] of all experts, with TENSOR_bias [experts, out], where the experts are not
  // stored as tensors of their own. Checkpoints show each expert's (experiments/model/linear/weights.h).
  std::string_view stacked = {};

  constexpr Site Input() const { return InputOf(weight); }
};

// A linear layer of a model: a place in a layer, of one expert where it is of experts.
struct LinearLayer {
  const LinearPlace* place;
  int layer;
  std::optional<int> expert;

  SiteKey WeightKey() const { return {.site = place->weight, .layer = layer, .expert = expert}; }
  SiteKey InputKey() const;
  std::string Tensor(const ModelConfig& config) const;  // without ".weight"
};

// A small tensor inside a layer that is kept in f32: a norm's weight, a lambda vector.
struct VectorPlace {
  std::string_view tensor;
  std::vector<int64_t> (*shape)(const ModelConfig&);
  float mean, deviation;              // initial values for random checkpoints
  bool ModelConfig::* has = nullptr;  // whether there is one; null: always
  // The norm whose output it multiplies, as its columns, if it is a small matrix that stays as it is: a router's.
  std::string_view norm = {};
  SiteOf of = SiteOf::kLayer;  // the layers that have it

  bool In(const ModelConfig& config, int layer) const;
};

struct TensorNames {
  std::string_view embedding, final_norm, head;
  std::string_view layer;  // precedes a layer's number, which a dot follows
  // If a family has them: a bias of the final norm; learned positions; for images the rows before the patches, of the
  // class token or registers (the embedding is then that of patches), and a norm before the first layer.
  std::string_view final_norm_bias, positions, class_row, input_norm;
  std::string_view head_bias = {};
};

// What an orthogonal matrix may rotate (experiments/quantize/equivalent_weights.h). kStream: the residual stream, if
// only linear layers read what its norms make. kStreamAndValues: values too, if nothing between V and o_proj treats the
// channels of an output head differently, but for a head norm's weight (Family::head_norm).
enum class Rotation { kNone, kStream, kStreamAndValues };

// Values where config.json lacks the key (families/table.h).
struct ModelDefaults {
  int vocabulary = 0, hidden = 0, ffn = 0, layers = 0, heads = 0;  // 0: config.json must have the key
  int kv_heads = 0;                                                // 0: as heads
  int head_dim = 0;                                                // 0: hidden / heads
  int positions = 2048;
  double norm_eps = 0;  // 0: as for counts
  double theta = 1e4;
  bool tied = false;
};

struct Family {
  std::string_view name;                               // model_type of config.json
  std::string_view activation = "silu";                // where hidden_act does not say it
  void (*read)(const ConfigKeys& keys, ModelConfig&);  // the family's own keys: reads or refuses them by name
  TensorNames names;
  std::span<const LinearPlace> linear;
  std::span<const VectorPlace> vectors;
  std::vector<OutputHead> (*heads)(const ModelConfig&);
  // Loads a layer, and lambda if weights alone determine it: usually LoadLayer (decoder.h) and the family's tensors.
  LayerWeights (*load)(Weights&, const ModelConfig&, int layer);
  void (*forward)(const LayerCall&);
  Rotation rotation;
  std::span<const Site> smoothed;  // inputs of linear layers whose channels can be scaled, undone by the layers before
  // Changes the configuration where config.json and the tensors may differ and the tensors decide; null: never.
  void (*fit)(const Checkpoint&, ModelConfig&) = nullptr;
  float norm_offset = 0;  // 1 if norms multiply by 1 + w: added to `vectors` and the final norm at loading
  bool rotates_parts =
      false;             // whether its code rotates a part of a head's channels where partial_rotary_factor says so
  bool centres = false;  // whether norms subtract the mean of a stream that may be rotated: then the rotation keeps it
  // The norm of each head's output, whose weight is one number for each channel of it, the same for all heads: what can
  // be scaled or moved there, between values and o_proj; empty: there is none, or it has no weight of its own.
  std::string_view head_norm = {};
  std::string_view examples = {};  // checkpoints of the family, for docs/reference/supported.md
  ModelDefaults defaults = {};
};

// Families, AddFamily and FamilyNamed are defined in families/table.cc, which knows all families.
std::span<const Family* const> Families();
// For families outside this library: call it from one thread before models are opened. The record must stay valid.
void AddFamily(const Family& family);

// Keys for families from timm's config.json, which names an architecture (families/vit.cc). Throws Error if unknown.
nlohmann::json FromTimm(const nlohmann::json& timm, const std::string& where);

// Throws Error for an unknown name; `where` starts the message.
const Family& FamilyNamed(std::string_view name, const std::string& where);
const Family& FamilyOf(const ModelConfig& config);

// Everything about heads follows from the family's head table.
std::vector<OutputHead> HeadTable(const ModelConfig& config);
int Maps(const ModelConfig& config);                // softmax maps per output head: 2 in a differential model
int64_t AttendedWidth(const ModelConfig& config);   // values of attention's output, all heads of a token
int64_t GateWidth(const ModelConfig& config);       // gates per query head, computed by rows of q_proj; 0: none
bool ProjectsLambda(const ModelConfig& config);     // whether lambda depends on token and head, not on weights alone
int HeadsOf(Site site, const ModelConfig& config);  // heads that the site's blocks distinguish; 0: none
// Whether a layer has the site, in models that have it at all.
bool HasSite(Site site, const ModelConfig& config, int layer);
// The linear layers of a layer, in the record's order.
inline auto LinearOf(const Family& family, const ModelConfig& config, int layer) {
  return family.linear | std::views::filter([&config, layer](const LinearPlace& place) {
           return HasSite(place.weight, config, layer);
         });
}
// All of a layer, each expert's too.
std::vector<LinearLayer> LinearLayersOf(const ModelConfig& config, int layer);
// 1 or 2 if only that map uses the site's head, else empty.
std::optional<int> MapOf(std::span<const OutputHead> table, Site site, int head);

std::string LayerTensor(const ModelConfig& config, int layer, std::string_view tensor);
std::string_view HeadTensor(const ModelConfig& config);  // for vocabulary logits; the embedding if tied

struct MatrixShape {
  int64_t out = 0, in = 0;
};
MatrixShape ShapeOf(Site weight, const ModelConfig& config);  // of a linear layer; of one expert's
// As stored: the rows before an image's patches (TensorNames::class_row), and learned positions.
std::vector<int64_t> LeadingShape(const ModelConfig& config);
std::vector<int64_t> PositionsShape(const ModelConfig& config);

}  // namespace tare
